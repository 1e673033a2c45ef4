"""White-box evaluation: may see weights, data and labels. (Kept empty so that `gaps` is had without torch.)"""
