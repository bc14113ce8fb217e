"""`python allow_fedsuper.py KIT [--store FOLDER] [--strict]`: FedSuper's classes on a start-up kit's allow-list."""

from fedsuper.engines.flare.policy import main

if __name__ == "__main__":
    main()
