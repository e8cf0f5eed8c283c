"""Training in the background: encode, learn, predict, rank, suggest, draw the map. The only part that imports torch."""
