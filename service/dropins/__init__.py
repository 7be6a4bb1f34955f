"""Drop-ins for APIs that people call already: the Perspective API and OpenAI's moderations."""
