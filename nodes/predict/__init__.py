"""PREDICT's nodes: perspectives, and the debate of two sides over what they say."""
