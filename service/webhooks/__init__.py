"""Messages to the operator's endpoints: written down with what they tell of, signed, sent until they are taken."""
