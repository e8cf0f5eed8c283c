"""What every room stands on: files, names, settings, users' own files, progress."""
