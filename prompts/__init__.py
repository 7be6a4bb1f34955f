"""The prompts: one Markdown file a call, in the folder of its system, and the policies in force.

`prompts.sets` fills a prompt in; `prompts.marks` says what it may be filled with.
"""
