"""Two annotators and an adjudicator: a system of one's own for Tribunal."""
