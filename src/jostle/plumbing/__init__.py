"""What every room stands on: names, settings, users' own files, progress."""
