# SPDX-License-Identifier: MIT
# needs: onednn images jansson
# needs no torch
"""Folders as people name them: parts, images beside masks, classes, and what lies about."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from kit import case, main


def fill(c, files):
    """Images, or masks of two classes where = is in front; text where it ends so."""
    for name in files.split():
        if name.endswith("/"):
            c.folder_of("d/" + name)
        elif name.startswith("="):
            c.image("d/" + name[1:], c.labels(8, 8, 2))
        elif name.rsplit("/", 1)[-1].startswith(("._", ".DS")) or name.endswith((".db", ".txt", ".json", ".xml")):
            c.write("d/" + name, "a\nb\n")
        else:
            c.image("d/" + name, 8)


def tree(parts, classes="ant bee", n=2):
    return " ".join(f"{p}/{k}/{i}.png" for p in parts.split() for k in classes.split() for i in range(n))


def pairs(where, n=2, mask="{}.png", image="{}.png"):
    """where: "IMAGES MASKS", and so on."""
    names = where.split()
    return " ".join(f"{a}/{image.format(i)} ={b}/{mask.format(i)}" for a, b in zip(names[::2], names[1::2]) for i in range(n))


def reads(name, doc, files, target, splits, options="", classes=("ant", "bee"), note=None, left=None):
    """splits: of training and validation, or of both together."""
    def f(c):
        fill(c, files)
        if target == "mask":
            c.write("d/classes.txt", "ant\nbee\n")
        r = c.json(f"data d {options}")
        n = r["samples"]
        assert r["target"] == target and splits in ((n["train"], n["val"]), n["train"] + n["val"]), r
        assert r["class_names"] == list(classes), r
        assert bool(r["notes"]) == bool(note) and all(note in n for n in r["notes"]), r
        assert left is None or left in r["left_out"], r
    f.__name__, f.__doc__ = name, doc
    case(f)


def asks(name, doc, files, says, options="", also=None):
    """also: options that the message names, and by which it reads."""
    def f(c):
        fill(c, files)
        r = c.run(f"data d {options}", 1, says=says)
        assert r.err.count("\n") == 1, r
        if also:
            c.run(f"data d {also}", 0)
    f.__name__, f.__doc__ = name, doc
    case(f)


# ---- parts with classes ----
reads("split_rf", "train, valid, test", tree("train valid test"), "class", (4, 4), left="such as test")
reads("split_tt", "train and test alone", tree("train test"), "class", (4, 4), note="test/ validates")
reads("split_caps", "Train and Val", tree("Train Val"), "class", (4, 4))
reads("split_long", "training, validation, testing", tree("training validation testing"), "class", (4, 4))
reads("split_dev", "train, dev, test", tree("train dev test"), "class", (4, 4))
reads("split_upper", "TRAIN and TEST", tree("TRAIN TEST"), "class", (4, 4), note="TEST/ validates")
reads("split_set", "training_set and test_set", tree("training_set test_set"), "class", (4, 4), note="test_set/ validates")
reads("split_images", "train_images and val_images", tree("train_images val_images"), "class", (4, 4))
reads("split_year", "train2017 and val2017", tree("train2017 val2017"), "class", (4, 4))
reads("split_within", "dataset/train ...", tree("dataset/train dataset/valid"), "class", (4, 4), note="lies in dataset/")
reads("split_deep", "a/b/train ...", tree("a/b/train a/b/test"), "class", (4, 4), note="/", left="")
reads("split_images_within", "images/train, images/val", tree("images/train images/val"), "class", (4, 4), note="lies in images/")
reads("split_train_alone", "train/ alone is divided", tree("train", n=8), "class", 16, "--val-fraction 0.5")
reads("split_fraction", "a part of train/ instead of test/", tree("train test", n=8), "class", 16, "--val-fraction 0.5",
      note="test/ is left out")
reads("split_flat_test", "test/ without folders of classes", tree("train val") + " test/1.png test/2.png", "class", (4, 4),
      left="such as test")
reads("split_annotations", "folders of text beside the parts", tree("train val") + " annotations/a.json", "class", (4, 4))
reads("split_parts", "other folders are left out on demand", tree("train val") + " extra/1.png", "class", (4, 4), "--folders parts")
reads("split_names_are_classes", "classes called train and test", "train/1.png test/1.png train/2.png test/2.png", "class", (2, 2),
      "--folders classes --val-fraction 0.25", classes=("test", "train"))
reads("classes_within", "one folder holds all", tree("pictures", n=8), "class", 16, "--val-fraction 0.5", note="lies in pictures/")
reads("classes_deep", "classes of folders", "ant/x/1.png ant/y/2.png bee/x/1.png bee/2.png", "class", (2, 2), "--val-fraction 0.5")
asks("mixed", "a part beside a class", tree("train") + " cat/1.png", ["train/", "cat/", "a part by its name", "a class by its name"],
     also="--folders parts")
asks("mixed_flat", "train/ beside a class, both with pictures", "train/1.png cat/1.png", ["train/", "cat/"], also="--folders classes")
asks("mixed_valid", "valid beside invalid", "valid/1.png invalid/1.png", ["valid/", "invalid/"], also="--folders classes")
asks("mixed_test", "pictures to be predicted beside the classes", "ant/1.png bee/1.png test/1.png", ["test/", "ant/"],
     also="--folders parts")
asks("flat_parts", "train/ and test/ without folders of classes", "train/1.png test/1.png", "holds pictures, but no folder for each class",
     also="--folders classes")
asks("no_train", "val and test alone", tree("val test"), "no train/")
asks("only_test", "test alone", tree("test"), "holds test/, which is not to be trained on")
asks("two_trains", "train and training", tree("train training val"), ["train/ and training/", "rename one"])
asks("within_classes", "parts within the classes", "ant/train/1.png ant/test/2.png bee/train/1.png bee/test/2.png",
     ["parts within a class", "train/ant"], also="--folders classes")
asks("empty_val", "val/ without classes", tree("train") + " val/", "val does not")

# ---- images and masks ----
for folders in ["images labels", "imgs masks", "img gt", "image mask", "JPEGImages SegmentationClass", "Images Masks", "photos annotations",
                "images ground_truth", "inputs targets", "rgb seg", "x_images x_masks", "images manual1"]:
    name = folders.replace(" ", "_").lower()
    if name.startswith("x_"):
        asks("pairs_" + name, "names that say nothing", pairs(folders), "class", options="--target mask")
    else:
        reads("pairs_" + name, f"images and masks called {folders}", pairs(folders, 8), "mask", (7, 1))
reads("pairs_parts", "images/train masks/train", pairs("images/train masks/train images/val masks/val"), "mask", (2, 2))
reads("pairs_ade", "as ADE20K", pairs("images/training annotations/training images/validation annotations/validation"), "mask", (2, 2))
reads("pairs_in_parts", "train/images train/masks", pairs("train/images train/masks valid/images valid/masks"), "mask", (2, 2))
reads("pairs_camvid", "train beside trainannot", pairs("train trainannot val valannot test testannot"), "mask", (2, 2))
reads("pairs_prefixed", "train_images train_masks", pairs("train_images train_masks val_images val_masks"), "mask", (2, 2))
reads("pairs_glued", "imagesTr labelsTr", pairs("imagesTr labelsTr imagesTs labelsTs"), "mask", (2, 2), note="imagesTs/ validates")
reads("pairs_tt", "train and test alone", pairs("train/images train/masks test/images test/masks"), "mask", (2, 2), note="test/ validates")
reads("pairs_test_unlabelled", "test/ has images alone", pairs("train/images train/masks val/images val/masks") + " test/images/1.png",
      "mask", (2, 2))
reads("pairs_within", "dataset/images dataset/masks", pairs("dataset/images dataset/masks", 8), "mask", (7, 1), note="lies in dataset/")
asks("pairs_trained_as_classes", "images beside labels, asked for classes", pairs("images labels"),
     ["images/ and labels/, which are images and masks by their names", "--folders classes"], "--target class",
     also="--target class --folders classes")
asks("pairs_other_masks", "masks in folders of names that say nothing", pairs("images masks_a images masks_b"), "d/masks: No such file",
     options="--target mask")
asks("pairs_two_known", "labels beside gt", pairs("images labels images gt"), ["gt/ and labels/", "both may be meant"])
asks("pairs_val_half", "val/ without masks", pairs("train/images train/masks") + " val/images/1.png", "val/masks")
asks("pairs_yolo", "labels of boxes", "images/train/1.png labels/train/1.txt", ".txt files are those of boxes")
asks("pairs_coco_text", "masks are JSON files", "images/1.png masks/1.json", ".json files are those of boxes and outlines")

# ---- parts whose names say nothing ----
for outer in ["fold0 fold1 fold2", "ILSVRC2012_img_train ILSVRC2012_img_val", "site_a site_b", "Lernen Pruefen"]:
    asks("outer_" + outer.split()[0], f"the same classes in {outer}",
         " ".join(f"{part}/{name}/{k}.png" for part in outer.split() for name in ("ant", "bee") for k in range(4)),
         ["parts by words of their names" if "train" in outer else "folders of the same names, ant and bee", f"--val d/{outer.split()[1]}",
          "--folders classes"])
reads("inner_others", "classes of other subfolders", "ant/day/1.png ant/night/2.png bee/day/1.png bee/dusk/2.png", "class", 4,
      "--val-fraction 0.5", note="such as ant/day/: if the inner folders are the classes")
reads("inner_one", "each class has one folder within", "ant/images/1.png ant/images/2.png bee/images/1.png bee/images/2.png", "class", 4,
      "--val-fraction 0.5")

# ---- names of masks ----
for mask in ["{}_mask.png", "{}_gt.png", "{}_L.png", "{}_labelIds.png", "{}.mask.png", "{}-seg.png", "{}_manual1.png", "mask_{}.png",
             "gt-{}.png", "{}.PNG", "{}mask.png"]:
    rule = mask.rsplit(".", 1)[0].replace("{}", "*")
    reads("mask_" + "".join(x if x.isalnum() else "_" for x in mask), f"masks called {mask}", pairs("images masks", 8, mask), "mask", (7, 1),
          note=None if rule == "*" else f'"{rule}"')
reads("mask_upper", "endings in capitals", pairs("images masks", 8, "{}.PNG", "{}.PNG"), "mask", (7, 1))
reads("mask_of_jpg", "images .JPG", pairs("images masks", 8, "{}.png", "{}.JPG"), "mask", (7, 1))
reads("mask_both", "img_1 beside mask_1", pairs("images masks", 8, "mask_{}.png", "img_{}.jpg"), "mask", (7, 1), note='"img_*=mask_*"')
reads("mask_sat", "1_sat.jpg beside 1_mask.png", pairs("images masks", 8, "{}_mask.png", "{}_sat.jpg"), "mask", (7, 1), note='"*_sat=*_mask"')
reads("mask_more", "colours for people beside the masks", pairs("images masks", 8) + " masks/1_color.png", "mask", (7, 1))
asks("mask_some", "one mask is called otherwise", "images/1.png images/2.png =masks/1.png =masks/2_mask.png",
     ["images/2.png has no mask", "masks/2_mask.png"])
asks("mask_case", "the case of a stem", "images/a.png =masks/A.png", ["images/a.png", "masks/A.png is nearly that"])
asks("mask_none", "names without anything in common", "images/a.png =masks/b.png", ["a.png is missing", "b.png", "--mask-name"])
asks("mask_ten", "1 is not 10", "images/1.png =masks/10.png", "masks/1.png is missing")
asks("mask_two", "labelIds and instanceIds", pairs("images masks", 2, "{}_labelIds.png") + " " + pairs("images masks", 2, "{}_instanceIds.png"),
     ["*_labelIds", "*_instanceIds"], also="--mask-name *_labelIds --classes 2")

# ---- what lies about ----
reads("rubbish", "what systems leave", "ant/1.png ant/2.png bee/1.png bee/2.png .ipynb_checkpoints/1.png __MACOSX/ant/1.png ant/._0.png"
      " Thumbs.db bee/.DS_Store", "class", (2, 2), "--val-fraction 0.5", left="5 hidden or system files")
reads("empty_class", "a folder without a picture", "ant/1.png ant/2.png bee/1.png bee/2.png cow/ dog/notes.txt", "class", (2, 2),
      "--val-fraction 0.5", left="2 folders without a picture that is read, such as cow")
reads("unread_class", "a class of pictures that are not read", "ant/1.png ant/2.png bee/1.png bee/2.png cow/1.txt cow/0.txt", "class",
      (2, 2), "--val-fraction 0.5", left="1 folder without a picture that is read (cow/0.txt)")
reads("empty_class_in_part", "a class is empty in a part", tree("train val") + " train/cow/ val/cow/1.png", "class", (4, 5),
      classes=("ant", "bee", "cow"), left="(train/cow)")
reads("rubbish_in_pairs", "what systems leave beside masks", pairs("images masks", 8) + " masks/.ipynb_checkpoints/0.png images/Thumbs.db __MACOSX/0.png",
      "mask", (7, 1), left="2 hidden or system files")
reads("macosx_beside", "an unpacked archive of a Mac", tree("set", n=8) + " __MACOSX/set/ant/._0.png", "class", 16,
      "--val-fraction 0.5", note="lies in set/")

# ---- images/ beside a table ----


def table(name, rows, target, says):
    def f(c):
        for i in range(6):
            c.image(f"d/images/{i}.png")
        c.write("d/labels.csv", "\n".join([rows[0]] + [f"images/{i}.png,{rows[1][i]}" for i in range(6)]) + "\n")
        assert c.json("data d")["target"] == target
        c.run("run train_seg.lua --data d --size 16 --batch 2 --steps 1", 1, says=says)
    f.__name__, f.__doc__ = name, "images/ without masks/, beside a table of " + name
    case(f)


table("classes", ("path,label", ["ant", "bee"] * 3), "class", 'd holds images and a .csv file that says what they are, which is for target = "class"')
table("numbers", ("path,age", [1.5, 2, 3, 4.25, 5, 6]), "numbers", "a .csv file that says what they are")


@case
def one_sample(c):
    """one sample is not enough, whatever fraction validates"""
    c.image("d/images/1.png")
    c.image("d/masks/1.png", c.labels(8, 8, 2))
    for fraction in ["", "--val-fraction 0.5"]:
        c.run("data d --classes 2 " + fraction, 1, says="1 sample is none for", lacks="val_fraction")


@case
def images_alone(c):
    """images/ alone says what is missing, whatever lies beside it"""
    c.image("d/images/1.png")
    c.write("d/notes.csv", "who,what\nme,that\n")
    c.run("data d", 1, says="d/masks: No such file")


UNREAD = (
    ("heic", "HEIC image", "heif-convert"), ("HEIF", "HEIC image", "heif-convert"), ("avif", "AVIF image", "heif-convert"),
    ("jxl", "JPEG XL image", "djxl"), ("psd", "file of Photoshop", "magick"), ("dcm", "DICOM file", "dcmj2pnm"),
    ("mp4", "film", "ffmpeg"), ("MOV", "film", "ffmpeg"), ("raw", "raw file of a camera", "darktable-cli"),
    ("CR2", "raw file of a camera", "darktable-cli"), ("nef", "raw file of a camera", "darktable-cli"), ("svg", "SVG drawing", "rsvg-convert"),
    ("pdf", "page to print", "pdftoppm"), ("jp2", "JPEG 2000 image", "opj_decompress"), ("exr", "image of a format", "magick"),
    ("nii.gz", "file of arrays", "numpy.save"), ("npz", "file of arrays", "numpy.save"),
)


@case
def formats_that_are_not_read(c):
    "classes, and images, of formats that are not read: which, how many, and what converts them"
    for ending, name, tool in UNREAD:
        for k in range(2):
            c.write(f"d/of_{ending}/{k}.{ending}", "x")
    c.image("e/ant/0.png", 8)
    c.image("e/bee/0.png", 8)
    r = c.run("data d", 1, "d holds no image of a format that is read, but 4 HEIC images, such as of_HEIF/0.HEIF")
    for ending, name, tool in UNREAD:
        assert name.split()[0] in r.text and tool in r.text, f"{name}, {tool}\n{r}"
        os.rename(c.path(f"d/of_{ending}"), c.path(f"e/of_{ending}"))
    r = c.run("data e", 0, [f"{len(UNREAD)} folders without a picture that is read", "4 HEIC images, such as of_HEIF/0.HEIF", "2 DICOM files"])
    assert "of other endings" not in r.text
    c.write("f/ant/x.heic", "x")
    for name in ("ant", "bee"):
        c.image(f"f/{name}/0.png", 8)
    assert "1 HEIC image (ant/x.heic), to be converted: heif-convert FILE.heic FILE.png" in c.json("data f")["left_out"]
    c.write("g/images/0.heic", "x")
    c.image("g/masks/0.png", c.labels(8, 8, 2))
    c.write("g/classes.txt", "a\nb\n")
    c.run("data g", 1, "folder g/images holds no *.jpg")
    c.run("data g", 1, "but 1 HEIC image (images/0.heic), to be converted: heif-convert")


@case
def parts_called_as_masks(c):
    "seg_train/ and seg_test/ with a folder of the same name in each, and seg_pred/ beside them, are no classes"
    for part in ("train", "test"):
        for name in ("sea", "forest"):
            for k in range(3):
                c.image(f"d/seg_{part}/seg_{part}/{name}/{k}.png", 8)
    for k in range(3):
        c.image(f"d/seg_pred/seg_pred/{k}.png", 8)
    says = "d holds seg_train/ and seg_test/, parts by their names, with folders of images"
    for target in ("auto", "class"):
        r = c.run(f"data d --target {target}", 1, says=[says, "name the one that trains, d/seg_train/seg_train", "(--val d/seg_test/seg_test)"], cure=False)
    c.run("data d/seg_train/seg_train --val d/seg_test/seg_test", says=["6 train, 6 val, 2 classes: forest, sea"])
    c.cured |= {line for line in r.text.splitlines() if says in line}
    c.cures("data d --target class", says, "--folders classes")
    c.run("data d/seg_train --val d/seg_test", 1, says="no class is in both parts: d/seg_train holds seg_train/, and d/seg_test holds seg_test/")
    for part, name in (("train", "ant"), ("val", "bee")):
        for k in range(3):
            c.image(f"e/{part}/{name}/{k}.png", 8)
    c.run("data e", 1, says="no class is in both parts: e/train holds ant/, and e/val holds bee/")


if __name__ == "__main__":
    main()
