"""What is of no room in particular: catalogues, files, names, settings, users' own files, progress."""
