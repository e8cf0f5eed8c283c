"""A maintainer's tools: they make the project's own pages, and are not installed."""
