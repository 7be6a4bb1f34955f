"""What stands in place of two APIs that people call already: the Perspective API, and OpenAI's moderations."""
