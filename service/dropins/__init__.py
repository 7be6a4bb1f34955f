"""Drop-ins for APIs that people call already: the Perspective API, OpenAI's moderations, and a signal for Coop."""
