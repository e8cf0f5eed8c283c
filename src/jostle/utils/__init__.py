"""What is of no room in particular: registries, files, names, settings, users' own files, progress."""
