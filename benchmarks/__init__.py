"""Speed and memory of jostle: every figure is a ratio of things measured side by side in one run."""
