"""Results shown to people: figures and pages."""
