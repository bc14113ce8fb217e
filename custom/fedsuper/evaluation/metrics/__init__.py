"""What is told of a mask beside Dice: boundary distances and clinical measurements."""
