"""What becomes of decided cases: found, appealed, audited, exported, reported."""
