"""The leak check: no phrase of a prompt, policy or example stands in a test set."""
