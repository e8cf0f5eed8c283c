"""What sees a user's pool: any holder of examples, as inputs only."""
