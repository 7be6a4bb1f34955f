"""The screening classifier: fitted on posts that people decided, it spares clear posts the trial, and is audited."""
