"""The paper's tables and figures, made again: a recipe each, found by name. Nothing heavy is imported here."""

RECIPES: dict[str, str] = {
    "cifar10-10": "table 2: all methods on CIFAR-10, 10 % forgotten, MoCo and SimCLR",
    "cifar10-50": "table 3: the same, 50 % forgotten",
    "cifar100-10": "table 4: CIFAR-100, 10 % forgotten",
    "cifar100-50": "table 5: CIFAR-100, 50 % forgotten",
    "svhn": "table 6: SVHN, 10 % forgotten, MoCo",
    "resnet50": "table 12: ResNet-50 on CIFAR-10, 10 % forgotten, MoCo",
    "time-memory": "table 15: minutes and GB of every method, ResNet-18 to -152",
}
