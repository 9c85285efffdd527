# SPDX-License-Identifier: MIT
# needs: onednn images jansson
# needs no torch
"""Tables of files and labels as people write them: which column is what, where the files are, what a label is."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from kit import case, main, np


def fill(c, table, files="in/0.png in/1.png in/2.png in/3.png", at="d.csv", more=()):
    for f in files.split():
        c.image(f)
    for path, text in more:
        c.write(path, text)
    c.write(at, table)


def reads(name, doc, table, classes="ant bee", n=4, says=(), lacks=(), options="", counts=None, samples=None, target="class", path="d.csv",
          train="", **how):
    """says: of the notes; samples: (training, validation)."""
    def f(c):
        fill(c, table, **how)
        r = c.json(f"data {path} {options}")
        notes = "\n".join(r["notes"])
        assert r["target"] == target, r
        assert r["class_names"] == (classes.split() if isinstance(classes, str) else list(classes)), r
        assert sum(r["samples"].values()) == n and samples in (None, (r["samples"]["train"], r["samples"]["val"])), r
        if counts:
            assert [a + b for a, b in zip(r["counts"]["train"], r["counts"]["val"])] == list(counts), r
        for word in [says] if isinstance(says, str) else says:
            assert word in notes, f"notes lack '{word}': {notes}"
        for word in [lacks] if isinstance(lacks, str) else lacks:
            assert word not in notes, f"notes have '{word}': {notes}"
        if not says:
            assert not notes, notes
        c.run(f"data {path} {options} --check", 0)
    f.__name__, f.__doc__ = name, doc
    case(f)


def asks(name, doc, table, says, also=(), options="", path="d.csv", **how):
    """also: options that the message proposes, and by which it reads."""
    def f(c):
        fill(c, table, **how)
        r = c.run(f"data {path} {options}", 1, says=says)
        assert r.err.count("\n") == 1, r
        for option in [also] if isinstance(also, str) else also:
            assert option in r.err or option.startswith("!"), f"does not propose {option}\n{r}"
            c.run(f"data {path} {options} {option.lstrip('!')}", 0)
    f.__name__, f.__doc__ = name, doc
    case(f)


def rows(head, values, file="in/{}.png", sep=","):
    return head + "\n" + "".join(file.format(i) + sep + v + "\n" for i, v in enumerate(values))


TWO = ["ant", "bee", "ant", "bee"]

# ---- what is between fields ----

reads("semicolons", "a file with semicolons", rows("file;label", TWO, sep=";"), says="fields are separated by semicolons")
reads("tabs", "a file with tabs", rows("file\tlabel", TWO, sep="\t"), says="fields are separated by tabs")
reads("tsv", "a file that is called .tsv", rows("file\tlabel", TWO, sep="\t"), at="d.tsv", path="d.tsv", says="tabs")
reads("bars", "a file with bars", rows("file|label", TWO, sep="|"), says="fields are separated by bars")
reads("blanks", "a file with blanks", rows("file label", TWO, sep="  "), says="fields are separated by blanks")
reads("excel_sep", "a first line that names the separator", "sep=;\n" + rows("file;label", TWO, sep=";"), says="semicolons")
reads("quoted_semicolons", "quotes, and separators and line breaks within them, between semicolons",
      'note;file;label\n"a;b\n""c""";in/0.png;ant\n;in/1.png;bee\n;"in/2.png";"ant"\n;in/3.png;bee\n', says=["semicolons", "note"])
reads("list_txt", "a list of paths and classes, as of ImageNet", "".join(f"in/{i}.png {i % 2}\n" for i in range(4)), classes="", counts=[2, 2],
      at="train.txt", path="train.txt", says=["fields are separated by blanks", "the first row is data"])
reads("tabs_and_blanks", "labels with blanks between tabs", rows("file\tlabel", ["red ant", "bee"] * 2, sep="\t"),
      classes=["bee", "red ant"], says="tabs")
asks("two_separators", "commas or semicolons", "file;a,label\nin/0.png;in/0.png,ant\nin/1.png;in/1.png,bee\n",
     ["d.csv line 1: commas or semicolons may be between the columns", "--set reader.separator=comma"])
reads("separator_given", "the separator is given", rows("file;label", TWO, sep=";"), options="--set reader.separator=semicolon")

# ---- names of columns ----

HEADS = [("filename", "class"), ("file_name", "category"), ("image_path", "target"), ("image", "diagnosis"), ("img", "label"),
         ("Image", "Label"), ("FILE", "CLASS"), ("image_id", "label"), ("id", "breed"), ("img_path", "category_id"), ("Image Name", "dx"),
         ("path", "labels"), ("image id", "Class Name")]
for file_name, label_name in HEADS:
    reads("head_" + "".join(x for x in file_name + "_" + label_name if x.isalnum() or x == "_"), f"columns {file_name} and {label_name}",
          rows(f"{file_name},{label_name}", TWO), says=f"column {file_name} names the files, column {label_name} is the label")
reads("pandas_index", "the index that pandas writes", ",file,label\n0,in/0.png,ant\n1,in/1.png,bee\n2,in/2.png,ant\n3,in/3.png,bee\n",
      says="1 column of 3 is not read: (no name)")
reads("unnamed_index", "the index that pandas reads and writes again",
      "Unnamed: 0,file,label\n0,in/0.png,ant\n1,in/1.png,bee\n2,in/2.png,ant\n3,in/3.png,bee\n", says="Unnamed: 0")
reads("by_content", "columns whose names say nothing", rows("x,what", TWO), says="column x names the files, column what is the label")
reads("no_header", "no header", rows("in/0.png,ant", [], sep="") + rows("", TWO)[1:].split("\n", 1)[1],
      says="the first row is data, not names of columns: column 1 is the file, column 2 the label")
reads("no_header_reversed", "no header, the label first", "ant,in/0.png\nbee,in/1.png\nant,in/2.png\nbee,in/3.png\n",
      says="column 2 is the file, column 1 the label")
asks("no_header_three", "no header, and more than two columns", "in/0.png,ant,7\nin/1.png,bee,8\n",
     "no column 'label'", "!--columns file=1,label=2", options="--target class")
asks("two_labels_columns", "two columns that may be the label", "file,class,category\nin/0.png,ant,insect\nin/1.png,cat,mammal\nin/2.png,cat,mammal\n",
     "column 2 (class) and column 3 (category) may both be the label", ["--columns label=class", "--columns label=category"])
asks("two_files_columns", "two columns that may be the file", "image,path,label\nin/0.png,in/1.png,ant\nin/2.png,in/3.png,bee\n",
     "column 1 (image) and column 2 (path) may both be the file", ["--columns file=image", "--columns file=path"])
reads("file_beside_id", "an id beside the path", "id,path,label\n7,in/0.png,ant\n8,in/1.png,bee\n9,in/2.png,ant\n1,in/3.png,bee\n",
      says=["column path names the files", "id"])
reads("columns_given", "columns are given", "a,b,c\nin/0.png,ant,x\nin/1.png,bee,y\nin/2.png,ant,x\nin/3.png,bee,y\n",
      options="--columns file=a,label=b", says="1 column of 3 is not read: c")
asks("columns_wrong", "a column that is not there", rows("file,label", TWO), 'd.csv has no column "dx"; it has file, label',
     options="--columns label=dx")
reads("label_is_exact", "a column label and one that is called class", "file,class,label\nin/0.png,x,ant\nin/1.png,x,bee\nin/2.png,x,ant\nin/3.png,x,bee\n",
      says="1 column of 3 is not read: class")
reads("folder_of_one", "a folder with one such file", rows("image_id,dx", TWO), path=".", says=["d.csv says which files there are", "image_id"])
reads("hot_class", "a column of 0 and 1 for each class", rows("image,ant,bee,cow", ["1.0,0.0,0.0", "0,1,0", "1,0,0", "0,0,1"]),
      classes="ant bee cow", counts=[2, 1, 1], says="a class each, 0 or 1, are: ant, bee, cow")

# ---- parts ----

reads("split_words", "parts in other words", "file,label,Set\nin/0.png,ant,Training\nin/1.png,bee,training\nin/2.png,ant,VALID\nin/3.png,bee,dev\n",
      samples=(2, 2), says="column Set says what validates")
reads("split_test", "train and test alone", "file,label,split\nin/0.png,ant,train\nin/1.png,bee,train\nin/2.png,ant,test\nin/3.png,bee,test\n",
      samples=(2, 2), says="no row's split is val, so those of test validate")
reads("split_three", "train, val and test", "file,label,split\nin/0.png,ant,train\nin/1.png,bee,train\nin/2.png,ant,val\nin/3.png,bee,test\n",
      n=3, samples=(2, 1), says="1 row of test is left out")
reads("split_is_valid", "True and False", "name,label,is_valid\nin/0.png,ant,False\nin/1.png,bee,False\nin/2.png,ant,True\nin/3.png,bee,False\n",
      samples=(3, 1), says="is_valid")
reads("split_numbers", "numbers of folds", "file,label,fold\nin/0.png,ant,0\nin/1.png,bee,0\nin/2.png,ant,1\nin/3.png,bee,2\n",
      says="column fold numbers parts and is not read")
reads("split_fold", "one of the folds", "file,label,fold\nin/0.png,ant,0\nin/1.png,bee,0\nin/2.png,ant,1\nin/3.png,bee,2\n",
      samples=(3, 1), options="--columns split=fold --val-value 1")
asks("split_odd", "parts in words of one's own", "file,label,split\nin/0.png,ant,a\nin/1.png,bee,b\n",
     "it is neither train nor val", "--val-value a")

# ---- the same file twice ----

LEAK = "file,label,split\nin/0.png,ant,train\nin/1.png,bee,train\nin/2.png,ant,val\nin/0.png,ant,val\n./in/1.png,bee,val\n"
reads("leak", "files in training and in validation", LEAK, n=5,
      says="2 files are both in training and in validation, such as ./in/0.png")
reads("leak_once", "... which are left out of validation", LEAK, n=3, samples=(2, 1), options="--repeats once", says="left out")
reads("leak_val_csv", "the same files in two .csv files", rows("file,label", TWO), n=8, options="--val e.csv",
      more=[("e.csv", rows("file,label", TWO))], says="4 files are both in training and in validation")
reads("twice", "a file twice with the same label", rows("file,label", TWO) + "in/../in/1.png,bee\n", n=5,
      says="1 sample is of a file that an earlier one has, such as ./in/../in/1.png: each row counts")
asks("twice_two_labels", "a file twice with two labels", rows("file,label", TWO) + "in/1.png,ant\n",
     './in/1.png is "bee" in d.csv line 3 and "ant" in line 6', ["--target labels", "--repeats once", "--repeats keep"])
asks("two_labels_across", "a file with two labels in the two parts", "file,label,split\nin/0.png,ant,train\nin/1.png,bee,train\nin/0.png,bee,val\n",
     './in/0.png is "ant" in d.csv line 2 and "bee" in line 4', "--repeats once")


@case
def leak_trains(c):
    "a training says so, too"
    fill(c, LEAK)
    c.run("run train_cls.lua --data d.csv --size 16 --batch 2 --steps 2 --augment none --pictures 0 --out r",
          says="2 files are both in training and in validation")

@case
def columns_train(c):
    "a training reads by the columns that are given, and so do its pictures"
    fill(c, rows("a,b,c", ["0,7", "1,8"] * 8), files=" ".join(f"in/{i}.png" for i in range(16)))
    c.run("run train_cls.lua --data d.csv --columns file=a,label=b --size 16 --batch 2 --steps 2 --augment none --out r", says="accuracy",
          lacks="no pictures")
    assert b'"truth"' in c.read("r/samples/samples.json")


reads("train_and_val", "train.csv and val.csv in a folder", rows("image,label", TWO), n=6, samples=(4, 2), at="train.csv", path=".",
      more=[("val.csv", "image,label\nin/4.png,ant\nin/5.png,bee\n"), ("sample_submission.csv", "image,label\nx.png,0\n")],
      files=" ".join(f"in/{i}.png" for i in range(6)), says="of 3 .csv files train.csv and val.csv say which files there are")
reads("train_alone", "train.csv beside test.csv, as competitions have it", rows("image_id,label", TWO, file="{}"), at="train.csv", path=".",
      more=[("test.csv", "image_id\n9\n")], files=" ".join(f"train_images/{i}.jpg" for i in range(4)), says=["train.csv", "train_images/", ".jpg"])


@case
def classes_alike(c):
    "folders of classes that differ by case"
    for k in ("Ant", "ant", "bee"):
        for i in range(3):
            c.image(f"d/{k}/{i}.png")
    c.run("data d", says="the classes Ant and ant differ by case, blanks or accents alone")
    c.run("data d --set reader.label_case=keep", lacks="differ by case")


@case
def mask_classes_alike(c):
    "names in classes.txt that differ by case"
    for i in range(3):
        c.image(f"d/images/{i}.png")
        c.image(f"d/masks/{i}.png", c.labels(8, 8, 3))
    c.write("d/classes.txt", "ground\nRoad\nroad \n")
    c.run("run train_seg.lua --data d --size 16 --batch 2 --steps 2 --pictures 0 --out r", says="the classes Road and road differ by case")


# ---- where the files are ----


def elsewhere(name, doc, names, says, files="images/0.png images/1.png images/2.png images/3.png", **how):
    reads(name, doc, rows("file,label", TWO, file=names), files=files, says=says, **how)


elsewhere("below", "files in a folder that the names lack", "{}.png", "files are looked for in images/")
elsewhere("below_two", "... two folders down", "{}.png", "a/images/", files="a/images/0.png a/images/1.png a/images/2.png a/images/3.png")
elsewhere("no_ending", "names without an ending", "{}", ["files are looked for in images/", ".png is put behind"])
elsewhere("no_ending_here", "... in their place", "images/{}", ".png is put behind")
elsewhere("no_ending_dots", "... with dots in them", "v1.{}", ".jpg is put behind", files="v1.0.jpg v1.1.jpg v1.2.jpg v1.3.jpg")
elsewhere("other_machine", "absolute paths of another machine", "/kaggle/input/x/images/{}.png", "files are looked for without /kaggle/input/x/ in front")
elsewhere("other_windows", "... of Windows", "C:\\data\\images\\{}.png", "files are looked for without C:/data/ in front")
elsewhere("too_much", "names from the folder above on", "set/images/{}.png", "files are looked for without set/ in front")
elsewhere("here_dot", "names with ./ in front", "./images/{}.png", ())
@case
def beside_another(c):
    """files in a folder beside that of the table, which says nothing of images"""
    for i in range(2):
        c.image(f"home/{i}.png")
    c.write("tables/d.csv", rows("file,label", ["ant", "bee"], file="{}.png"))
    c.run("data tables/d.csv", 1, says="No such file")


elsewhere("beside", "a folder beside that of the .csv file", "{}.png", "files are looked for in ../images/", at="tables/d.csv", path="tables/d.csv")
elsewhere("file_url", "file:// in front", "file://images/{}.png", ())
elsewhere("root_given", "the folder is given", "{}.png", (), options="--root images")
elsewhere("root_instead", "a prefix is replaced", "s3/{}.png", (), options="--root s3/=images")
elsewhere("url_here", "addresses whose files are here", "https://host/images/{}.png", "files are looked for without https://host/ in front")
asks("url", "addresses", rows("file,label", TWO, file="https://host/x/{}.jpg"),
     "https://host/x/0.jpg is an address, and files are read from this machine; download them")
asks("below_both", "two folders that have the file", rows("file,label", TWO, file="{}.png"),
     "is not in this file's folder, but below", ["--root a", "--root b"],
     files=" ".join(f"{k}/{i}.png" for k in "ab" for i in range(4)))
asks("nowhere", "a file that is nowhere", rows("file,label", TWO, file="x{}.png"), "d.csv line 2, column 1 (file): ./x0.png: No such file")
asks("other_case", "a file whose name has another case", rows("file,label", TWO, file="in/{}.PNG"), "the folder has 0.png")


@case
def absolute(c):
    "absolute paths"
    fill(c, "")
    c.write("d.csv", rows("file,label", TWO, file=c.path("in") + "/{}.png"))
    assert c.json("data d.csv")["notes"] == []

# ---- labels ----


reads("floats", "classes as floats", rows("file,label", ["0.0", "1.0", "0.0", "1.0"]), classes="", counts=[2, 2],
      says="labels such as 0.0 are read as whole numbers")
asks("fractions", "numbers with a fraction", rows("file,label", ["0.5", "1.25", "0", "1"]), "the label 0.5 is no whole number", "!--target numbers",
     options="--target class")
asks("case_differs", "labels that differ by case", rows("file,label", ["Cat", "cat ", "dog", "dog"]),
     'the label "cat" differs from "Cat" (d.csv line 2, column 2 (label)) by case', ["--set reader.label_case=ignore", "--set reader.label_case=keep"])
asks("blanks_differ", "... by blanks within", rows("file,label", ["red  ant", "red ant", "bee", "bee"]), "by case, blanks or accents alone")
asks("lines_differ", "... by a line below", rows("file,label", ["red_ant", "red ant", "bee", "bee"]), "by case, blanks or accents alone")
asks("accents_differ", "... by how an accent is written", rows("file,label", ["caf\u00e9", "cafe\u0301", "bee", "bee"]), "by case, blanks or accents alone")
asks("case_of_greek", "... in other alphabets", rows("file,label", ["\u041a\u043e\u0442", "\u043a\u043e\u0442", "b", "b"]), "by case, blanks or accents alone")
reads("case_ignored", "... and are one", rows("file,label", ["Cat", "cat", "dog", "dog"]), classes="Cat dog", counts=[2, 2],
      options="--set reader.label_case=ignore", says="1 label is read as another")
asks("case_of_list", "classes.txt in another case", rows("file,label", ["Cat", "Dog", "Cat", "Dog"]), 'classes.txt has "cat", which differs by case',
     "--set reader.label_case=ignore", more=[("classes.txt", "cat\ndog\n")])
for word in ["nan", "NA", "N/A", "None", "null", "?", "-"]:
    asks("missing_" + ("".join(x for x in word if x.isalnum()) or f"sign{ord(word)}"), f"a label {word}", rows("file,label", ["ant", word, "bee", "bee"]),
         f'the label is "{word}": that there is none, or the name of a class?', ["--missing skip", "--missing class"])
asks("empty", "an empty label", rows("file,label", ["ant", "", "bee", "bee"]), "column 2 (label): it is empty", ["--missing skip", "--target labels"])
reads("skipped", "... left out", rows("file,label", ["ant", "", "bee", "nan"]), n=2, options="--missing skip",
      says=["1 row without a value is left out, the first in line 3", "1 sample without a label is left out"])
reads("missing_is_listed", "a class that is called none", rows("file,label", ["none", "ant", "none", "ant"]), classes="none ant",
      more=[("classes.txt", "none\nant\n")])
for sign, name in [(" ", "blank"), (";", "semicolon"), ("|", "bar"), ("+", "plus"), ("/", "slash")]:
    asks("several_" + name, f"several labels with '{sign}' between", rows("file,label", ["ant", f"ant{sign}bee", "bee", "bee"]),
         f'the label is "ant{sign}bee": several labels, or the name of one class?', ["--target labels", "--set reader.cells=name"])
asks("several_comma", "several labels with commas", rows("file,label", ["ant", '"ant, bee"', "bee", "bee"]), "several labels, or the name of one class?",
     "--target labels")
asks("several_shared", "blanks between labels that never stand alone", rows("file,label", ["ant bee", "bee cow", "cow ant", "ant bee"]),
     'the label is "ant bee": several labels, or the name of one class?', ["!--target labels --set 'reader.label_separator= '", "--set reader.cells=name"])
reads("names_share_words", "names of two words, which share some", rows("file,label", ["black tern", "least tern", "black crow", "black tern"]),
      classes=["black crow", "black tern", "least tern"])
asks("several_list", "lists of Python", rows("file,label", ["\"['ant']\"", "\"['ant', 'bee']\"", "\"['bee']\"", "\"['bee']\""]),
     "several labels, or the name of one class?", "--target labels")
asks("several_vector", "vectors", rows("file,label", ['"[1, 0, 0]"', '"[0, 1, 1]"', '"[1, 0, 0]"', '"[0, 0, 1]"']),
     "several labels, or the name of one class?", "--target labels")
reads("names_with_blanks", "names with blanks in them", rows("file,label", ["golden retriever", "german shepherd"] * 2),
      classes=["german shepherd", "golden retriever"])
reads("names_with_commas", "names with commas in them", rows("file,label", ['"tench, Tinca tinca"', '"goldfish, Carassius auratus"'] * 2),
      classes=["goldfish, Carassius auratus", "tench, Tinca tinca"])
reads("quoted_rows", "quotes around all fields", '"file","label"\n' + "".join(f'"in/{i}.png","{v}"\n' for i, v in enumerate(TWO)))

# ---- several labels ----


def labels(name, doc, table, counts, classes="ant bee cow", says=(), options="--target labels", figures=None, **how):
    """counts: of each label; figures: (least, most, without one) of all samples."""
    def f(c):
        fill(c, table, **how)
        r = c.json(f"data d.csv {options}")
        assert r["target"] == "labels" and r["layout"] == "csv", r
        assert r["class_names"] == (classes.split() if isinstance(classes, str) else list(classes)), r
        assert [a + b for a, b in zip(r["counts"]["train"], r["counts"]["val"])] == list(counts), r
        notes = "\n".join(r["notes"])
        for word in [says] if isinstance(says, str) else says:
            assert word in notes, f"notes lack '{word}': {notes}"
        if figures:
            t, v = r["figures"]["train"][0], r["figures"]["val"][0]
            assert (min(t["least"], v["least"]), max(t["most"], v["most"]), t["none"] + v["none"]) == figures, r
        c.run(f"data d.csv {options} --check", 0)
    f.__name__, f.__doc__ = name, doc
    case(f)


SETS = [["ant"], ["ant", "bee"], [], ["cow", "ant"]]


def cells(form):
    return rows("file,labels", [form(s) for s in SETS])


labels("labels_bars", "labels with bars between", cells("|".join), [3, 1, 1], says="labels in a cell are separated by bars", figures=(0, 2, 1))
labels("labels_semicolons", "... with semicolons", cells("; ".join), [3, 1, 1], says="separated by semicolons")
labels("labels_commas", "... with commas", cells(lambda s: '"' + ",".join(s) + '"'), [3, 1, 1], says="separated by commas")
labels("labels_blanks", "... with blanks", rows("file,labels", ["ant", "ant bee", "bee", "bee ant"]), [3, 3], classes="ant bee", says="separated by blanks")
labels("labels_numbers", "numbers of classes with blanks between", rows("file,labels", ["0", "0 2", "1 2", "2"]), [2, 1, 3], classes="",
       says="separated by blanks")
labels("labels_python", "lists of Python", cells(lambda s: '"' + str(s) + '"'), [3, 1, 1], figures=(0, 2, 1))
labels("labels_json", "lists of JSON", cells(lambda s: '"[' + ", ".join(f'""{w}""' for w in s) + ']"'), [3, 1, 1])
labels("labels_vector", "vectors of 0 and 1", rows("file,labels", [f'"{v}"' for v in ([1, 0, 0], [1, 1, 0], [0, 0, 0], [1, 0, 0])]), [3, 1, 0], classes="",
       says="cells are vectors of 0 and 1", figures=(0, 2, 1))
labels("labels_vector_blanks", "... with blanks between", rows("file,labels", ["1 0 0", "1 1 0", "0 0 0", "1 0 0"]), [3, 1, 0], classes="")
asks("labels_vector_of_two", "[1, 0] and [0, 1] alone", rows("file,labels", ['"[1, 0]"', '"[0, 1]"'] * 2),
     "may be 0 and 1 for each class, or the classes by number", ["--set reader.cells=vector", "--set reader.cells=list"], options="--target labels")
labels("labels_hot", "a column of 0 and 1 for each, found", rows("file,ant,bee,cow", ["1,0,0", "1,1,0", "0,0,0", "1,0,1"]), [3, 1, 1], options="",
       says="a class each, 0 or 1, are: ant, bee, cow", figures=(0, 2, 1))
labels("labels_hot_order", "... in the order of the columns", rows("file,zebra,ant", ["1.0,0.0", "1.0,1.0", "0.0,1.0", "0.0,1.0"]), [2, 3],
       classes="zebra ant")
labels("labels_hot_true", "... of True and False", rows("file,a,b", ["True,False", "True,True", "False,True", "False,False"]), [2, 2], classes="a b")
labels("labels_hot_named", "... some of which are named", rows("file,ant,bee,cow", ["1,0,7", "1,1,8", "0,0,9", "1,0,9"]), [3, 1], classes="ant bee",
       options="--target labels --columns ant,bee")
asks("labels_hot_odd", "... with a cell that is neither", rows("file,ant,bee", ["1,0", "1,0.5", "0,0", "1,0"]), "d.csv line 3, column 3 (bee): it is neither 0 nor 1",
     options="--target labels")
labels("labels_rows", "a row for each label", "file,label\nin/0.png,ant\nin/0.png,bee\nin/1.png,ant\nin/2.png,cow\nin/3.png,ant\nin/1.png,ant\n", [3, 1, 1],
       says="2 rows are of a file that an earlier row names: their labels are put together", figures=(1, 2, 0))
labels("labels_skipped", "rows without a label are left out", cells("|".join), [3, 1, 1], options="--target labels --missing skip",
       says="1 sample without a label is left out", figures=(1, 2, 0))
labels("labels_none", "none and nan in a cell", rows("file,labels", ["ant|bee", "none", "nan", "bee"]), [1, 2], classes="ant bee", figures=(0, 2, 2),
       says="2 samples have an empty cell, so none of the labels")
labels("labels_listed", "classes.txt says the order", cells("|".join), [1, 3, 1, 0], classes="cow ant bee dog", more=[("classes.txt", "cow\nant\nbee\ndog\n")])
labels("labels_names", "names with blanks, one a cell", rows("file,labels", ["red ant", "bee"] * 2), [2, 2], classes=["bee", "red ant"],
       options="--target labels --set reader.cells=name")
asks("labels_names_or", "... or several", rows("file,labels", ["red ant", "bee"] * 2), '"red ant" may be several labels or one name with blanks',
     ["--set 'reader.label_separator= '", "--set reader.cells=name"], options="--target labels")
asks("labels_two_signs", "two signs between labels", rows("file,labels", ["ant|bee;cow", "ant", "bee", "cow"]), "may be separated by '|' or by ';'",
     "!--set 'reader.label_separator=|'", options="--target labels")
asks("labels_case", "labels that differ by case", rows("file,labels", ["Ant|bee", "ant", "bee", "bee"]), "by case, blanks or accents alone",
     "--set reader.label_case=ignore", options="--target labels")
asks("labels_folders", "folders of classes", "", 'target = "labels" reads a .csv file', options="--target labels", path="f",
     files="f/ant/0.png f/bee/0.png", at="notes.txt")

# ---- numbers ----


def numbers(name, doc, table, columns, most, says=(), lacks="left out", options="--target numbers", n=4, **how):
    """most: the largest of each column."""
    def f(c):
        fill(c, table, **how)
        r = c.json(f"data d.csv {options}")
        assert r["target"] == "numbers" and r["class_names"] == columns.split() and r["classes"] == len(columns.split()), r
        assert sum(r["samples"].values()) == n, r
        found = [max(a["most"], b["most"]) for a, b in zip(r["figures"]["train"], r["figures"]["val"])]
        assert np_close(found, most), (found, most)
        notes = "\n".join(r["notes"])
        for word in [says] if isinstance(says, str) else says:
            assert word in notes, f"notes lack '{word}': {notes}"
        assert lacks not in notes, notes
        c.run(f"data d.csv {options} --check", 0)
    f.__name__, f.__doc__ = name, doc
    case(f)


def np_close(a, b):
    return len(a) == len(b) and all(abs(x - y) <= 1e-6 * max(abs(x), abs(y)) for x, y in zip(a, b))


numbers("numbers_one", "one column, found", rows("file,age", ["1.5", "2", "-3", "1e1"]), "age", [10], options="")
numbers("numbers_label", "the column of labels", rows("file,note,label", ["9,1.5", "8,2", "7,3", "6,4"]), "label", [4], options="--target numbers",
        says="1 column of 3 is not read: note")
numbers("numbers_four", "all columns of numbers, found", rows("file,x,y,w,h", ["1,2,3,4.5", "5,6,7,8", "1,1,1,1", "2,2,2,2"]), "x y w h", [5, 6, 7, 8], options="",
        says="numbers are: x, y, w, h")
numbers("numbers_beside_text", "columns of words beside numbers", rows("file,who,age", ["a,1", "b,2", "c,3", "d,4"]), "age", [4], says="1 column of 3 is not read: who")
@case
def numbers_folder(c):
    "a folder with a table of numbers"
    fill(c, rows("image,x,w", ["1,2", "5,6", "1,1", "2,2"]))
    r = c.json("data .")
    assert r["target"] == "numbers" and r["class_names"] == ["x", "w"], r
    c.run("run train_cls.lua --data . --size 16 --batch 2 --steps 2 --augment none --val-fraction 0.5 --out r", says=["the target is numbers", "w MAE"])


numbers("numbers_named", "columns that are named, in their order", rows("file,x,y,w", ["1,2,3", "5,6,7", "1,1,1", "2,2,2"]), "w x", [7, 5],
        options="--target numbers --columns w,x")
numbers("numbers_pandas", "the index of pandas is none", ",file,age\n0,in/0.png,5\n1,in/1.png,6\n2,in/2.png,7\n3,in/3.png,8\n", "age", [8])
numbers("numbers_german", "decimal commas between semicolons", rows("file;age", ["1,5", "2,25", "3", "4,125"], sep=";"), "age", [4.125],
        says=["numbers have a decimal comma", "semicolons"])
numbers("numbers_quoted_comma", "decimal commas in quotes", rows("file,age", ['"1,5"', '"2,25"', '"3,0"', '"4,5"']), "age", [4.5], says="decimal comma")
numbers("numbers_constant", "a column that is the same throughout", rows("file,a,b", ["1,7", "2,7", "3,7", "4,7"]), "a b", [4, 7],
        says="column b is 7 in all rows of d.csv, from line 2 on: nothing can be learned from it")
for word, says in [("nan", "is no number"), ("", "is no number"), ("NA", "is no number"), ("inf", "is no finite number"), ("-Infinity", "is no finite number")]:
    asks("numbers_" + (word.strip("-") or "empty"), f"a cell '{word}'", rows("file,age", ["1.5", word, "2", "3"]),
         ["d.csv line 3, column 2 (age): ", says], "--missing skip", options="--target numbers")
for i, (word, says) in enumerate([("12 kg", "has a unit behind the number"), ("5%", "has a unit behind the number"), ("$3", "has a unit in front"),
                                  ('"1,234.5"', "has thousands separators"), ("1 234", "has thousands separators"), ("1'234", "has thousands separators"),
                                  ('"1,234,567"', "has thousands separators"), ("12e", "has a unit behind"), ("1e99", "is too large for a 32-bit number"),
                                  ("0x10", "has a unit behind"), ("abc", "is no number"), ("1.2.3", "is no number"), ("--5", "is no number"),
                                  ("\u0661\u0662", "is no number"), ("1\u00a0234", "has thousands separators")]):
    asks(f"numbers_odd_{i}", f"a cell {word}", rows("file,age", ["1.5", word, "2", "3"]), ["d.csv line 3, column 2 (age): ", says], options="--target numbers")
asks("numbers_three_digits", "1,234 may be two numbers", rows("file;age", ["1,234", "2", "3", "4"], sep=";"),
     "may be a thousand and more, or a number with a decimal comma", "--set reader.decimal=comma", options="--target numbers")
asks("numbers_comma_then_point", "both signs of a fraction", rows("file;age", ["1,5", "2.5", "3", "4"], sep=";"), "has a point, and numbers have a decimal comma",
     options="--target numbers")
asks("numbers_point_then_comma", "... the other way", rows("file;age", ["1.5", "2,5", "3", "4"], sep=";"), "has a decimal comma, and numbers before it a point",
     options="--target numbers")
asks("numbers_twice", "a file with two numbers", rows("file,age", ["1.5", "2", "3", "4"]) + "in/0.png,9\n", "has other numbers in d.csv line 6 than in line 2",
     ["--repeats once", "--repeats keep"], options="--target numbers")
asks("numbers_no_columns", "no column of numbers", rows("file,a,b", ["x,y"] * 4), "no column 'label'; for target = \"numbers\"", options="--target numbers")



@case
def nothing(c):
    """files without a row, or of line breaks alone"""
    for text in ["", "\n\n\n", "\ufeff"]:
        c.write("d.csv", text)
        c.run("data d.csv", 1, says="d.csv is empty; a row for each image is wanted")


@case
def several_tables(c):
    "a folder with several .csv files, of which none is called train"
    for k in range(4):
        c.image(f"d/i/{k}.png", 8)
        np.save(c.path(f"d/m/{k}.npy"), np.full((8, 8), k + 1, np.float32))
    for name in ("one", "two"):
        c.write(f"d/{name}.csv", "file,map,label\n" + "".join(f"i/{k}.png,m/{k}.npy,{k % 2}\n" for k in range(4)))
    for target in "map", "mask", "numbers", "labels":
        c.run(f"data d --target {target}", 1, says="d holds 2 .csv files, one.csv, two.csv, and none of them is called train.csv: name the one that says "
              "what the images are, such as d/one.csv")
    c.run("data d/one.csv --target map", says="1 number for each pixel")
    c.write("d/train.csv", c.read("d/two.csv"))
    c.run("data d --target map", says="of 3 .csv files train.csv says which files there are")


@case
def odd_labels(c):
    "classes with % in their names; numbers that are written in two ways are said to be one"
    for k in range(6):
        c.image(f"{k}.png", 8)
    c.write("pct.csv", "file,label\n" + "".join(f"{k}.png,{k % 2}0%\n" for k in range(6)))
    c.run("data pct.csv", says=["2 classes: 00%, 10%", "train: 00%"])
    for name, two in (("zero", ("1", "01")), ("real", ("1", "1.0"))):
        c.write(f"{name}.csv", "file,label\n" + "".join(f"{k}.png,{two[k % 2]}\n" for k in range(6)))
        c.run(f"data {name}.csv", says=f"labels such as {two[1]} are read as whole numbers")


@case
def large_table(c):
    "a table of more bytes than are kept at once, whose parts are mixed: each row in its part, files that are there twice, the line of an error"
    c.image("i/0.png", 8)
    n = 9000
    for i in range(1, n):
        os.link(c.path("i/0.png"), c.path(f"i/{i}.png"))
    def row(i, name=None):
        return f"{name or i}.png,{'abc'[i % 3]},{('train', 'val', 'test')[i % 7 % 3]},{'x' * 600}\n"
    rows = [row(i) for i in range(n)]
    c.write("i/d.csv", "file,label,split,text\n" + "".join(rows))
    doc = c.json("data i/d.csv")
    parts = {part: [sum(1 for i in range(n) if i % 3 == k and i % 7 % 3 == p) for k in range(3)] for p, part in enumerate(("train", "val"))}
    assert doc["samples"] == {"train": sum(parts["train"]), "val": sum(parts["val"])}, doc["samples"]
    c.run("data i/d.csv", says=[f"  {part}: " + ", ".join(f"{name} {k}" for name, k in zip("abc", of)) for part, of in parts.items()])
    c.write("i/d.csv", "file,label,split,text\n" + "".join(rows) + row(n - 4, "8"))
    c.run("data i/d.csv", says="1 sample is of a file that an earlier one has, such as ")
    c.write("i/d.csv", "file,label,split,text\n" + "".join(rows) + row(1, "none"))
    c.run("data i/d.csv", 1, says=f"line {n + 2}, column 1 (file)")


if __name__ == "__main__":
    main()
