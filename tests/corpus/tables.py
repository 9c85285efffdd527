# SPDX-License-Identifier: MIT
# needs: onednn images jansson
# needs no torch
"""Tables of files and labels as people write them: which column is what, where the files are, what a label is."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from kit import case, main


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
asks("empty", "an empty label", rows("file,label", ["ant", "", "bee", "bee"]), "column 2 (label): it is empty", "--missing skip")
reads("skipped", "... left out", rows("file,label", ["ant", "", "bee", "nan"]), n=2, options="--missing skip",
      says=["1 row without a value is left out, the first in line 3", "1 sample without a label is left out"])
reads("missing_is_listed", "a class that is called none", rows("file,label", ["none", "ant", "none", "ant"]), classes="none ant",
      more=[("classes.txt", "none\nant\n")])
for sign, name in [(" ", "blank"), (";", "semicolon"), ("|", "bar"), ("+", "plus"), ("/", "slash")]:
    asks("several_" + name, f"several labels with '{sign}' between", rows("file,label", ["ant", f"ant{sign}bee", "bee", "bee"]),
         f'the label is "ant{sign}bee": several labels, or the name of one class?', ["--target labels", "--set reader.cells=name"])
asks("several_comma", "several labels with commas", rows("file,label", ["ant", '"ant, bee"', "bee", "bee"]), "several labels, or the name of one class?",
     "--target labels")
asks("several_list", "lists of Python", rows("file,label", ["\"['ant']\"", "\"['ant', 'bee']\"", "\"['bee']\"", "\"['bee']\""]),
     "several labels, or the name of one class?", "--target labels")
asks("several_vector", "vectors", rows("file,label", ['"[1, 0, 0]"', '"[0, 1, 1]"', '"[1, 0, 0]"', '"[0, 0, 1]"']),
     "several labels, or the name of one class?", "--target labels")
reads("names_with_blanks", "names with blanks in them", rows("file,label", ["golden retriever", "german shepherd"] * 2),
      classes=["german shepherd", "golden retriever"])
reads("names_with_commas", "names with commas in them", rows("file,label", ['"tench, Tinca tinca"', '"goldfish, Carassius auratus"'] * 2),
      classes=["goldfish, Carassius auratus", "tench, Tinca tinca"])
reads("quoted_rows", "quotes around all fields", '"file","label"\n' + "".join(f'"in/{i}.png","{v}"\n' for i, v in enumerate(TWO)))

if __name__ == "__main__":
    main()
