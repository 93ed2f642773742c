"""Training: corpora, recipes, initialisation, losses, and publishing a pair."""
