"""What computes, in folders: convolutions by transforms, directly, in groups; what lies between them."""
