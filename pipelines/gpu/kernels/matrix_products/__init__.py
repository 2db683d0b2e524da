"""Products of matrices: by multiply-adds, by matrix units of warps and of warpgroups, and what they share."""
