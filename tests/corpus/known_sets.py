# SPDX-License-Identifier: MIT
# needs: onednn images jansson libarchive
# needs no torch
"""Public data sets as they are unpacked: read by a rule of the reader, or refused in a line whose cure is typed here."""
import os
import pickle
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from importing import imports, main, members, needs, reads  # noqa: E402
from kit import case, np  # noqa: E402


def images(c, *names, size=8):
    for name in names:
        c.image(name, size)


def masks(c, *names, of=(0, 1)):
    for name in names:
        c.image(name, np.asarray(of, np.uint8)[c.labels(8, 8, len(of))])


def quoted(r, *words):
    """The line of a message that holds these words, which is typed here."""
    line = next(t for t in r.text.splitlines() if words[0] in t)
    assert all(w in line for w in words), f"lacks {words}\n{r}"
    return line


def shell(c, r, words):
    """What follows in the message, from `words` on, is typed in the case's folder."""
    commands = quoted(r, words)
    commands = commands[commands.index(words) :].split("; if ")[0]
    subprocess.run(["sh", "-ec", commands], cwd=c.folder, check=True)
    c.cured |= {t for t in r.text.splitlines() if words in t}


def imported(c, line, name, train, val):
    """The reader says what the set is, and the import that it names is typed."""
    r = c.run(line, 1, cure=False, says=[f"is laid out as {name}, with labels in", "spcore_import.py d", "-o NEW"])
    imports(c, "@d", says=f"laid out as {name}")
    doc = reads(c, "class", train, val)
    c.cured |= {t for t in r.text.splitlines() if "is laid out as" in t}
    return doc["class_names"]


# ---- images and masks ----
@case
def cityscapes(c):
    "leftImg8bit/train/CITY and gtFine/train/CITY with three kinds of masks: the city's folder is no part; the kind is asked"
    for part, city in (("train", "aachen"), ("train", "bochum"), ("val", "lindau"), ("test", "berlin")):
        for k in range(2):
            stem = f"{part}/{city}/{city}_{k}_19"
            images(c, f"d/leftImg8bit/{stem}_leftImg8bit.png")
            for kind in ("color", "instanceIds", "labelIds", "labelTrainIds"):
                masks(c, f"d/gtFine/{stem}_gtFine_{kind}.png", of=(0, 1, 255) if kind == "labelTrainIds" else (7, 8, 11))
            c.write(f"d/gtFine/{stem}_gtFine_polygons.json", "{}")
    r = c.cures("data d --classes 19", "has 4 masks", "--mask-name '*_leftImg8bit=*_gtFine_labelTrainIds'", "--mask-name '*_leftImg8bit=*_gtFine_labelIds'",
                "--mask-name '*_leftImg8bit=*_gtFine_color'", "--mask-name '*_leftImg8bit=*_gtFine_instanceIds'")
    doc = c.json("data d --mask-name '*_leftImg8bit=*_gtFine_labelTrainIds' --classes 19 --check")
    assert (doc["samples"]["train"], doc["samples"]["val"]) == (4, 2), r
    c.run("data d --mask-name '*_leftImg8bit=*_gtFine_labelTrainIds' --classes 19 --check",
          says=["such as leftImg8bit/train/aachen/ and gtFine/train/aachen/", "all 6 samples can be used"])
    os.remove(c.path("d/gtFine/train/bochum/bochum_1_19_gtFine_labelTrainIds.png"))
    c.run("data d --mask-name '*_leftImg8bit=*_gtFine_labelTrainIds' --classes 19", 1,
          says="d/leftImg8bit/train/bochum/bochum_1_19_leftImg8bit.png has no mask: d/gtFine/train/bochum/bochum_1_19_gtFine_labelTrainIds.png is missing")


@case
def pets(c):
    "images/ beside annotations/trimaps/ with what a Mac leaves: masks of 1, 2, 3, or classes by the lists"
    names = [f"{n}_{k}" for n in ("Abyssinian", "great_pyrenees") for k in range(1, 5)]
    for n in names:
        images(c, f"d/images/{n}.jpg")
        masks(c, f"d/annotations/trimaps/{n}.png", of=(1, 2, 3))
        c.write(f"d/annotations/trimaps/._{n}.png", "x")
        c.write(f"d/annotations/xmls/{n}.xml", "<a/>")
    c.write("d/images/Abyssinian_100.mat", "x")
    c.write("d/annotations/list.txt", "#Image CLASS-ID\n")
    c.write("d/annotations/trainval.txt", "".join(f"{n} 1 1 1\n" for n in names[:3] + names[4:7]))
    c.write("d/annotations/test.txt", "".join(f"{n} 1 1 1\n" for n in names[3:4] + names[7:]))
    assert imported(c, "data d", "Oxford-IIIT Pet", 6, 2) == ["Abyssinian", "great_pyrenees"]
    r = c.run("data d", 1, says=['masks, in annotations/trimaps, are read with target = "mask" (train_seg.lua)', "--mask-values 1=pet,2=background,3=border"], cure=False)
    r = c.run(r.line + " --target mask --mask-values 1=pet,2=background,3=border --check",
              says=["masks lie in annotations/trimaps/", "3 classes: pet, background, border", "all 8 samples can be used"])
    masks(c, "d/annotations/more/Abyssinian_1.png")
    c.cures("data d --target mask --classes 4", "d/annotations holds no masks itself, but more/ and trimaps/ in it may", "--mask-folder trimaps", ("--mask-folder more", lambda: shutil.rmtree(c.path("d/annotations/more"))))


@case
def ade20k(c):
    "ADEChallengeData2016/images/training beside annotations/training, in a folder of its own"
    for part, n in (("training", 3), ("validation", 2)):
        for k in range(n):
            images(c, f"d/ADEChallengeData2016/images/{part}/{k}.jpg")
            masks(c, f"d/ADEChallengeData2016/annotations/{part}/{k}.png", of=(0, 1, 150))
    c.write("d/ADEChallengeData2016/objectInfo150.txt", "Idx\tName\n1\twall\n")
    c.cures("data d", "how many classes does d have?", ("--classes N", "--classes 151"))
    doc = c.json("data d --classes 151")
    assert doc["target"] == "mask" and (doc["samples"]["train"], doc["samples"]["val"]) == (3, 2)


@case
def coco_stuff(c):
    "train2017/ beside stuffthingmaps/train2017/"
    for part, n in (("train2017", 3), ("val2017", 2)):
        for k in range(n):
            images(c, f"d/{part}/{k}.jpg")
            masks(c, f"d/stuffthingmaps/{part}/{k}.png")
    doc = c.json("data d --classes 182")
    assert doc["target"] == "mask" and (doc["samples"]["train"], doc["samples"]["val"]) == (3, 2)


@case
def bdd100k(c):
    "images/10k/train beside labels/sem_seg/masks/train: parts so deep are named, and not divided at random"
    for part in ("train", "val"):
        for k in range(2):
            images(c, f"d/bdd100k/images/10k/{part}/{k}.jpg")
            masks(c, f"d/bdd100k/labels/sem_seg/masks/{part}/{k}.png")
            masks(c, f"d/bdd100k/labels/sem_seg/colormaps/{part}/{k}.png")
    r = c.run("data d --classes 19 --mask-folder masks", 1, says="hold train/, a part by its name, deeper than parts are looked for")
    shell(c, r, "mkdir NEW; ln -s")
    doc = c.json("data NEW --classes 19")
    assert (doc["samples"]["train"], doc["samples"]["val"]) == (2, 2)


@case
def voc_of_others(c):
    "VOC with SegmentationClassAug, and with lists of two paths, as DeepLab has them"
    for k in range(5):
        images(c, f"d/JPEGImages/{k}.jpg")
        masks(c, f"d/SegmentationClass/{k}.png", f"d/SegmentationClassAug/{k}.png", f"d/SegmentationObject/{k}.png")
    c.write("d/ImageSets/Segmentation/train.txt", "0\n1\n2\n")
    c.write("d/ImageSets/Segmentation/val.txt", "3\n4\n")
    c.cures("data d", "SegmentationClass/ is read, and not SegmentationClassAug/", "--mask-folder SegmentationClassAug", status=0)
    for name, rows in (("train", (0, 1, 2)), ("val", (3, 4))):
        c.write(f"d/ImageSets/Segmentation/{name}.txt", "".join(f"/JPEGImages/{k}.jpg /SegmentationClassAug/{k}.png\n" for k in rows))
    c.cures("data d", "train.txt line 1: SegmentationClassAug is another folder of masks", "--mask-folder SegmentationClassAug")
    doc = c.json("data d --mask-folder SegmentationClassAug --check")
    assert (doc["samples"]["train"], doc["samples"]["val"]) == (3, 2)
    shutil.rmtree(c.path("d/SegmentationClass"))
    c.cures("data d", "without SegmentationClass, but with SegmentationClassAug", "--mask-folder SegmentationClassAug")
    c.write("d/ImageSets/Segmentation/val.txt", "JPEGImages/3.jpg SegmentationClassAug/4.png\n")
    c.run("data d --mask-folder SegmentationClassAug", 1, says="val.txt line 1: 3 has a mask of another stem")
    for k in range(4):
        images(c, f"e/VOCdevkit/VOC2012/JPEGImages/{k}.jpg")
        masks(c, f"e/VOCdevkit/VOC2012/SegmentationClass/{k}.png")
    c.write("e/VOCdevkit/VOC2012/ImageSets/Segmentation/train.txt", "0\n1\n")
    c.write("e/VOCdevkit/VOC2012/ImageSets/Segmentation/val.txt", "2\n3\n")
    c.run("data e", 1, says="give its path, e/VOCdevkit/VOC2012")
    assert c.json("data e/VOCdevkit/VOC2012")["samples"]["val"] == 2


@case
def words_in_names(c):
    "ISIC's ..._Training_Input beside ..._Training_GroundTruth; a folder of images and masks together; a folder for each sample"
    for k in range(4):
        images(c, f"d/ISIC2018_Task1-2_Training_Input/{k}.jpg")
        masks(c, f"d/ISIC2018_Task1_Training_GroundTruth/{k}_segmentation.png")
        images(c, f"e/{k}_sat.jpg")
        masks(c, f"e/{k}_mask.png")
        images(c, f"f/stage1_train/{k}/images/{k}.png", f"g/cars_train/{k}.jpg", f"g/cars_test/{k}.jpg")
        masks(c, f"f/stage1_train/{k}/masks/1.png", f"f/stage1_train/{k}/masks/2.png")
    r = c.cures("data d --classes 2", "which have words of images and of masks in their names", "--folders classes")
    shell(c, r, "mv 'd/ISIC")
    assert c.json("data d --classes 2")["target"] == "mask"
    r = c.run("data e --classes 2", 1, says="e holds images and masks in one folder, such as 0_sat.jpg and 0_mask.png")
    shell(c, r, "mkdir 'e/masks'")
    assert c.json("data e --classes 2")["target"] == "mask"
    c.cures("data f", "hold images/ and masks/ each", "--folders classes")
    c.cures("data g", "parts by words of their names, and no folder for each class in them", "--folders classes")
    two_classes(c, "i/ILSVRC_img_train")
    two_classes(c, "i/ILSVRC_img_val")
    c.cures("data i", "parts by words of their names, with folders of images", "--folders classes",
            ("name the one that trains, i/ILSVRC_img_train, with --val i/ILSVRC_img_val", "spcore data i/ILSVRC_img_train --val i/ILSVRC_img_val"))
    for k in range(3):
        images(c, f"h/training/images/{k}.jpg")
        masks(c, f"h/training/v1.2/labels/{k}.png")
    c.cures("data h", "h/training holds images/, which is no class by its name, beside v1.2/", "--folders classes")


# ---- classes ----
@case
def names_of_lists_alone(c):
    "folders that are called as the files of a public set are none of it"
    for name in ("ant", "bee"):
        images(c, *(f"d/train/{name}/{k}.png" for k in range(4)), *(f"d/val/{name}/{k}.png" for k in range(2)))
    c.write("d/meta/notes.txt", "x")  # CIFAR-100 has files called train and meta
    assert c.json("data d")["class_names"] == ["ant", "bee"]


@case
def set_once_more(c):
    "Brain MRI: yes/ and no/ beside a folder that holds both again"
    for name in ("no", "yes"):
        images(c, *(f"d/{name}/{k}.jpg" for k in range(4)), *(f"d/brain/{name}/{k}.jpg" for k in range(4)))
    c.cures("data d", "d/brain holds no/ and yes/, as the folder that it lies in does", "--folders classes", ("name it itself, d/brain", "spcore data d/brain"),
            ("Move it away", lambda: shutil.move(c.path("d/brain"), c.path("away"))))


@case
def celeba(c):
    "one folder of images beside several tables: the one that is meant is asked for"
    images(c, *(f"d/img_align_celeba/img_align_celeba/{k:06}.jpg" for k in range(6)))
    c.write("d/list_attr_celeba.csv", "image_id,Smiling,Male\n" + "".join(f"{k:06}.jpg,{k % 2},{k // 3}\n" for k in range(6)))
    c.write("d/list_eval_partition.csv", "image_id,partition\n" + "".join(f"{k:06}.jpg,{k % 3}\n" for k in range(6)))
    c.cures("data d", "d holds 2 .csv files, list_attr_celeba.csv, list_eval_partition.csv", ("such as d/list_attr_celeba.csv", "spcore data d/list_attr_celeba.csv"))
    assert c.json("data d/list_attr_celeba.csv")["class_names"] == ["Smiling", "Male"]


@case
def images_in_several_folders(c):
    "HAM10000: a table of images that lie in two folders; one that is in neither"
    images(c, *(f"d/images_part_{1 + k // 3}/{k}.jpg" for k in range(6)))
    c.write("d/metadata.csv", "lesion,image_id,dx\n" + "".join(f"H{k},{k},{('nv', 'mel')[k % 2]}\n" for k in range(6)))
    r = c.run("data d --check --val-fraction 0.4", says=["files are looked for in images_part_1/", "files are also looked for in images_part_2/", "all 6 samples"])
    assert "mel" in r.text
    c.write("d/metadata.csv", "lesion,image_id,dx\n" + "".join(f"H{k},{k},{('nv', 'mel')[k % 2]}\n" for k in range(7)))
    c.run("data d", 1, says="d/metadata.csv line 8, column 2 (image_id): d/images_part_1/6.jpg: No such file")


@case
def within(c):
    "folders of classes in images/, beside folders of lists alone: EuroSAT, LFW, Caltech 101, SUN397"
    for name in ("Forest", "River"):
        for k in range(4):
            images(c, f"d/2750/{name}/{name}_{k}.jpg", f"e/101_ObjectCategories/{name}/{k}.jpg", f"f/SUN397/{name[0]}/{name}/{k}.jpg",
                   f"g/lfw/{name}/{k}.jpg")
    c.write("e/Annotations/Forest/1.mat", "x")
    for path, note in (("d", "2750/"), ("e", "101_ObjectCategories/; without a picture, and not read: Annotations/"), ("g", "lfw/")):
        doc = c.json(f"data {path}")
        assert doc["class_names"] == ["Forest", "River"] and f"the data lies in {note}" in doc["notes"], doc
    r = c.run("data f", says=["2 classes: F, R", "such as SUN397/F/Forest/: if the inner folders are the classes"])
    shell(c, r, "mkdir NEW; ln -s")
    assert c.json("data NEW")["class_names"] == ["Forest", "River"]


@case
def tables_beside_folders(c):
    "EuroSAT with train.csv whose columns ask; a table that is read instead of the folders; masks as run lengths"
    for name in ("Forest", "River"):
        for k in range(4):
            images(c, f"d/{name}/{k}.jpg", f"e/{name}/{k}.jpg")
    rows = [f"{n}/{k}.jpg,{i},{n}" for i, n in enumerate(("Forest", "River")) for k in range(4)]
    for part in ("test", "train"):
        c.write(f"d/{part}.csv", "Filename,Label,ClassName\n" + "\n".join(rows) + "\n")
    c.cures("data d", "d holds a folder for each class, and train.csv, whose column Filename names images", "--folders classes",
            ("name the table itself, d/train.csv", "spcore data d/train.csv --columns label=ClassName"))
    c.write("e/labels.csv", "file,label\n" + "".join(f"{n}/{k}.jpg,{'xy'[k % 2]}\n" for n in ("Forest", "River") for k in range(4)))
    assert c.json("data e")["class_names"] == ["x", "y"]
    c.cures("data e", "labels.csv says which files there are, and the folders are not taken for classes", "--folders classes", status=0)
    assert c.json("data e --folders classes")["class_names"] == ["Forest", "River"]
    for k in range(4):
        images(c, f"f/train/{k}.jpg")
        masks(c, f"f/train_masks/{k}_mask.png")
    c.write("f/train_masks.csv", "img,rle_mask\n" + "".join(f"{k}.jpg,{k} 3\n" for k in range(4)))
    assert c.json("data f --classes 2")["target"] == "mask"


def two_classes(c, at, n=4):
    for name in ("ant", "bee"):
        for k in range(n):
            images(c, f"{at}/{name}/{k}.jpg")


@case
def lists_of_parts(c):
    "Food-101, CUB-200 and DTD: classes from the folders; the parts in their lists are named, and kept by the import"
    two_classes(c, "food/food-101/images")
    for part, rows in (("train", (0, 1, 2)), ("test", (3,))):
        c.write(f"food/food-101/meta/{part}.txt", "".join(f"{n}/{k}\n" for n in ("ant", "bee") for k in rows))
    two_classes(c, "cub/CUB_200_2011/images")
    rows = [f"{n}/{k}.jpg" for n in ("ant", "bee") for k in range(4)]
    c.write("cub/CUB_200_2011/images.txt", "".join(f"{i + 1} {r}\n" for i, r in enumerate(rows)))
    c.write("cub/CUB_200_2011/train_test_split.txt", "".join(f"{i + 1} {int(i % 4 < 3)}\n" for i in range(8)))
    c.write("cub/CUB_200_2011/parts/parts.txt", "x")
    two_classes(c, "dtd/images")
    for part, rows in (("train", (0, 1)), ("val", (2,)), ("test", (3,))):
        c.write(f"dtd/labels/{part}1.txt", "".join(f"{n}/{k}.jpg\n" for n in ("ant", "bee") for k in rows))
    for path, at, name, n in (("food", "food/food-101", "Food-101", 6), ("cub", "cub/CUB_200_2011", "CUB-200", 6), ("dtd", "dtd", "DTD", 4)):
        r = c.run(f"data {path}", says=["2 classes: ant, bee", f"laid out as {name}, whose parts", f"spcore_import.py {at} -o NEW"])
        imports(c, f"@{at}", says=f"laid out as {name}")
        assert reads(c, "class", n, 2)["class_names"] == ["ant", "bee"]
        c.cured |= {t for t in r.text.splitlines() if "whose parts" in t}
    assert "dtd" not in members(c) and "ant/0.jpg" in members(c), "keys are paths from images/ on"


@case
def tiny_imagenet(c):
    "train/nXXX/images, and val/images with val_annotations.txt"
    for n in ("n01", "n02"):
        images(c, *(f"d/train/{n}/images/{n}_{k}.JPEG" for k in range(3)))
        c.write(f"d/train/{n}/{n}_boxes.txt", "x")
    images(c, *(f"d/val/images/val_{k}.JPEG" for k in range(4)), "d/test/images/test_0.JPEG")
    c.write("d/val/val_annotations.txt", "".join(f"val_{k}.JPEG\tn0{1 + k % 2}\t0\t0\t9\t9\n" for k in range(4)))
    assert imported(c, "data d", "Tiny ImageNet", 6, 4) == ["n01", "n02"]
    assert c.read("out/val-000000.tar").find(b"n02") > 0
    c.run("run train_seg.lua --data d", 1, says="is laid out as Tiny ImageNet")


@case
def words_in_front(c):
    "cats and dogs of Kaggle: train/cat.0.jpg beside train/dog.0.jpg; camera's names are no classes"
    images(c, *(f"d/train/{n}.{k}.jpg" for n in ("cat", "dog") for k in range(4)), *(f"d/test1/{k}.jpg" for k in range(3)))
    r = c.run("data d", 1, says="d/train holds pictures in one folder, whose names begin with cat dog")
    shell(c, r, "cd 'd/train'; for c in cat dog")
    assert c.json("data d --val-fraction 0.5")["class_names"] == ["cat", "dog"]
    images(c, *(f"e/train/{n}{k}.jpg" for n in ("IMG_", "DSC_") for k in range(4)))
    c.run("data e", 1, says="e/train holds pictures, but no folder for each class")


@case
def imagenet(c):
    "train/nXXX beside a flat val/: named alone it is divided; Kaggle's list of labels is imported"
    for n in ("n01", "n02"):
        images(c, *(f"d/train/{n}/{n}_{k}.JPEG" for k in range(6)), *(f"e/ILSVRC/Data/CLS-LOC/train/{n}/{n}_{k}.JPEG" for k in range(2)))
    images(c, "d/val/v1.JPEG", "d/val/v2.JPEG", "e/ILSVRC/Data/CLS-LOC/val/v1.JPEG", "e/ILSVRC/Data/CLS-LOC/val/v2.JPEG")
    c.write("e/LOC_val_solution.csv", "ImageId,PredictionString\nv1,n02 1 2 3 4\nv2,n01 1 2 3 4 n01 3 3 4 4\n")
    c.cures("data d", "d/val does not", ("name d/train", "spcore data d/train"))
    c.run("data e", 1, says="e is laid out as ImageNet, with labels in LOC_val_solution.csv")
    imports(c, "@e", says="laid out as ImageNet")
    reads(c, "class", 4, 2)
    assert members(c, "val")["ILSVRC/Data/CLS-LOC/val/v1.cls"] == b"n02"


@case
def cifar_and_mnist(c):
    "CIFAR's pickles, CIFAR's bytes and MNIST's: pixels and labels; a pickle that would call something is refused"
    rows = c.rng.integers(0, 256, (4, 3072), dtype=np.uint8)
    for name, at in (("data_batch_1", slice(0, 3)), ("test_batch", slice(3, 4))):
        c.write(f"d/{name}", pickle.dumps({b"data": rows[at], b"labels": [1, 0, 1, 0][at]}, 2))
    c.write("d/batches.meta", pickle.dumps({b"label_names": [b"ant", b"bee"]}, 2))
    assert imported(c, "data d", "CIFAR", 3, 1) == ["ant", "bee"]
    got = np.asarray(kit_image(members(c)["train/000001.png"]))
    assert (got == rows[1].reshape(3, 32, 32).transpose(1, 2, 0)).all() and members(c)["train/000001.cls"] == b"ant"
    c.write("d/batches.meta", pickle.dumps({b"label_names": os.system}, 2))
    imports(c, "@d", 1, "it would call posix.system")
    c.write("e/data_batch_1.bin", b"".join(bytes([k % 2]) + rows[k].tobytes() for k in range(4)))
    c.write("e/batches.meta.txt", "ant\nbee\n")
    c.run("data e", 1, says="e is laid out as CIFAR")
    imports(c, "@e")
    assert (np.asarray(kit_image(members(c)["train/000003.png"])) == rows[3].reshape(3, 32, 32).transpose(1, 2, 0)).all()
    c.write("e/data_batch_1.bin", bytes(5000))
    imports(c, "@e", 1, "has 5000 bytes, which are no rows of 3073")
    grey = c.rng.integers(0, 256, (4, 5, 6), dtype=np.uint8)
    for name, at in (("train", slice(0, 3)), ("t10k", slice(3, 4))):
        n = grey[at].shape[0]
        c.write(f"m/raw/{name}-images-idx3-ubyte", bytes([0, 0, 8, 3]) + np.array([n, 5, 6], ">u4").tobytes() + grey[at].tobytes())
        c.write(f"m/raw/{name}-labels-idx1-ubyte", bytes([0, 0, 8, 1]) + np.array([n], ">u4").tobytes() + bytes([7, 8, 9, 7][at]))
    c.run("data m", 1, says="m/raw is laid out as MNIST")
    imports(c, "@m")
    assert (np.asarray(kit_image(members(c)["train/000002.png"])) == grey[2]).all() and members(c)["train/000002.cls"] == b"9"
    c.write("m/raw/train-images-idx3-ubyte", bytes([0, 0, 8, 3, 0, 0, 0, 9]))
    imports(c, "@m", 1, "is no whole file of bytes in MNIST's form")


def kit_image(data):
    import io

    from kit import Image

    return Image.open(io.BytesIO(data))


@case
def aircraft(c):
    "FGVC-Aircraft: names of variants with blanks, in lists"
    images(c, *(f"d/data/images/{k}.jpg" for k in range(4)))
    c.write("d/data/images_variant_train.txt", "0 Boeing 707-320\n1 DH-82\n")
    c.write("d/data/images_variant_val.txt", "2 DH-82\n3 Boeing 707-320\n")
    assert imported(c, "data d", "FGVC-Aircraft", 2, 2) == ["Boeing 707-320", "DH-82"]


@needs("scipy")
def lists_of_matlab(c):
    "Flowers, Stanford Cars, Stanford Dogs and SVHN, whose lists are MATLAB's"
    import io

    from scipy.io import savemat

    def matlab(name, **arrays):
        out = io.BytesIO()
        savemat(out, arrays)
        c.write(name, out.getvalue())

    images(c, *(f"d/jpg/image_{k:05}.jpg" for k in range(1, 7)))
    matlab("d/imagelabels.mat", labels=np.array([[77, 77, 1, 1, 77, 1]], np.uint8))
    matlab("d/setid.mat", trnid=np.array([[1, 3]]), valid=np.array([[2, 4]]), tstid=np.array([[5, 6]]))
    assert imported(c, "data d", "Oxford 102 Flowers", 2, 2) == ["001", "077"]
    images(c, *(f"k/cars_{part}/{k}.jpg" for part in ("train", "test") for k in range(2)))
    matlab("k/devkit/cars_meta.mat", class_names=np.array([["AM Hummer", "Audi S6"]], dtype=object))
    for part, name in (("train", "devkit/cars_train_annos"), ("test", "cars_test_annos_withlabels")):
        rows = np.zeros((1, 2), dtype=[("class", object), ("fname", object)])
        rows["class"], rows["fname"] = [[2, 1]], [["0.jpg", "1.jpg"]]
        matlab(f"k/{name}.mat", annotations=rows)
    c.run("data k", 1, says="k is laid out as Stanford Cars")
    imports(c, "@k")
    assert reads(c, "class", 2, 2)["class_names"] == ["AM Hummer", "Audi S6"] and members(c)["cars_train/0.cls"] == b"Audi S6"
    two_classes(c, "e/Images")
    c.write("e/Annotation/ant/0", "x")
    for part, rows in (("train", (0, 1, 2)), ("test", (3,))):
        matlab(f"e/lists/{part}_list.mat", file_list=np.array([[f"{n}/{k}.jpg"] for n in ("ant", "bee") for k in rows], dtype=object))
    r = c.run("data e", says=["2 classes: ant, bee", "laid out as Stanford Dogs, whose parts, in lists/train_list.mat, are not read"])
    imports(c, "@e")
    reads(c, "class", 6, 2)
    c.cured |= {t for t in r.text.splitlines() if "whose parts" in t}
    pixels = c.rng.integers(0, 256, (32, 32, 3, 3), dtype=np.uint8)
    for part in ("train", "test"):
        matlab(f"s/{part}_32x32.mat", X=pixels, y=np.array([[10], [1], [9]], np.uint8))
    c.run("data s", 1, says="s is laid out as SVHN")
    imports(c, "@s")
    assert (np.asarray(kit_image(members(c)["train/000000.png"])) == pixels[..., 0]).all() and members(c)["train/000000.cls"] == b"0"
    c.write("s/test_32x32.mat", "x")
    imports(c, "@s", 1, "test_32x32.mat: no whole file of MATLAB")


if __name__ == "__main__":
    main()
