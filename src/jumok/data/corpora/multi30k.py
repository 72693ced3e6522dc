"""Multi30k: descriptions of pictures in English, German and French (Elliott et al. 2016, 2017)."""

from jumok.data.corpora.corpus import Corpus, CorpusFile, RowRange

_ADDRESS = (
    "https://raw.githubusercontent.com/multi30k/dataset/"
    "a3d2e0d26b56f3846f66a952536ffed4e401d05a/data/task1/raw"
)
_SPLITS = {
    "train": "train",
    "dev": "val",
    "test": "test_2016_flickr",
    "test_2017_flickr": "test_2017_flickr",
    "test_2017_mscoco": "test_2017_mscoco",
}
_FILES = {  # sha256 and size of the content, size of the .gz
    "train.en": (
        "460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6",
        1_801_238,
        568_929,
    ),
    "train.de": (
        "2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72",
        2_110_398,
        637_044,
    ),
    "train.fr": (
        "5925a3c18f1587b6b54b87743106e6e8ab93618edb6f65d19eac0621f853a10d",
        2_111_303,
        604_242,
    ),
    "val.en": (
        "1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227",
        63_297,
        21_650,
    ),
    "val.de": (
        "660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660",
        75_981,
        24_681,
    ),
    "val.fr": (
        "5304e444d842e962b2dda4d816b70b22a1765b15401642b7ca37a67477e708dc",
        73_924,
        23_001,
    ),
    "test_2016_flickr.en": (
        "399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182",
        62_076,
        21_077,
    ),
    "test_2016_flickr.de": (
        "4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16",
        70_649,
        22_890,
    ),
    "test_2016_flickr.fr": (
        "cb3160d69b002bb638e66cc7612fcd56cb0af82eadc9c142dedc438afb885ef6",
        72_261,
        22_310,
    ),
    "test_2017_flickr.en": (
        "ce1450ddc5ab0834502579d77a170849952e15a2938b34cc503bdc25ebb4fb98",
        55_242,
        19_138,
    ),
    "test_2017_flickr.de": (
        "c3078bc3b36808bf9d20eb2347ed6137016179ef59ec0d2b9b8ecc3fb2880081",
        64_059,
        21_471,
    ),
    "test_2017_flickr.fr": (
        "6f3764e31dac41e9455e612958bcfd4e877c5e15cd66df2c2b2be6d9bd83e5b6",
        65_691,
        20_434,
    ),
    "test_2017_mscoco.en": (
        "43051fdfa86fd5395182e718a94ca67b1b227b9f7c79596ff0f6b813216981d2",
        24_949,
        8_844,
    ),
    "test_2017_mscoco.de": (
        "58277df3c75f92f7145a11b910b553d1cf82c439249d4dc237c899609eafac22",
        29_906,
        10_230,
    ),
    "test_2017_mscoco.fr": (
        "39cde3f43f32b0a6bf29ce4917a46329ff32e53070c2fac87506695a740ae0a0",
        29_982,
        9_751,
    ),
}


def _file(name: str) -> CorpusFile:
    sha256, size, packed_size = _FILES[name]
    return CorpusFile(name, sha256, size, f"{_ADDRESS}/{name}.gz", "multi30k", packed_size)


def _from_english(language: str, name: str) -> Corpus:
    """The corpus from English into German (de) or French (fr)."""
    pairs = {split: (f"{stem}.en", f"{stem}.{language}") for split, stem in _SPLITS.items()}
    return Corpus(
        name=f"multi30k-en-{language}",
        description=f"descriptions of pictures, English -> {name}: 29,000 + 1,014 + 2,461",
        licence="research and education only, not commercial; never shipped in a package",
        url="https://github.com/multi30k/dataset",
        columns={"source": "source", "target": "target"},
        files=tuple(_file(file) for pair in pairs.values() for file in pair),
        splits={split: (RowRange(pair),) for split, pair in pairs.items()},
        target_language=language,
        redistributable=False,
    )


MULTI30K_EN_DE = _from_english("de", "German")
MULTI30K_EN_FR = _from_english("fr", "French")
