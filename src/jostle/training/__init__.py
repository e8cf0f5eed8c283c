"""Training a network from scratch by a recipe, and measuring how good it became."""
