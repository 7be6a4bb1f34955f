"""What every room speaks of: calls, words, times, languages."""
