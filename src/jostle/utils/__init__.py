"""Helpers of every subpackage: registries, files, names, settings, users' own files, progress."""
