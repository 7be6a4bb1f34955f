"""The cheapest order of models and a person that holds a promised agreement: a room that nothing else imports."""
