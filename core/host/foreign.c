/* SPDX-License-Identifier: MIT
 * foreign.c - files of weights that are another program's: what they are, and what converts them. */
#include "host/foreign.h"

#include <fcntl.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/util.h"

#define IN_PYTHON "; save them under the names of the network's tensors, in Python by save_file of safetensors."
#define BY_ONNX ", and spcore_convert.py NAME.onnx -o NAME makes layers and weights of that"

enum {
  PICKLE,
  ONNX,
  LIST,
  ARRAYS,
  KERAS,
  LITE,
  GRAPH,
  MATLAB,
  GGUF,
  FLAX,
  CAFFE,
  PADDLE,
  BARE,
  BUILT,
  APPLE,
  ARCHIVE,
  KINDS
};

/* The path stands between the two, where there is a second. */
static const struct {
  const char *is, *behind;
} words[KINDS] = {
    [PICKLE] = {"a file of PyTorch (a pickle), which is not read here: spcore_convert.py ",
                " -o NAME writes NAME.safetensors"},
    [ONNX] = {"a network of ONNX: spcore_convert.py ", " -o NAME makes layers and weights of it"},
    [LIST] = {"the list of a set's files, which are read as one: in Python save_file({k: v for f in FILES for k, v in "
              "load_file(f).items()}, \"ALL.safetensors\"), of safetensors.torch, makes it"},
    [ARRAYS] = {"arrays of NumPy" IN_PYTHON "numpy"},
    [KERAS] = {"weights of Keras (HDF5), whose names and order of numbers are other ones: in Python "
               "model.export(\"NAME.onnx\", format=\"onnx\") makes ONNX of the model" BY_ONNX},
    [LITE] = {"a network of TensorFlow Lite: tf2onnx makes ONNX of it" BY_ONNX},
    [GRAPH] = {"a file of TensorFlow: tf2onnx makes ONNX of the saved model" BY_ONNX},
    [MATLAB] = {"a file of MATLAB: scipy.io.loadmat reads its arrays" IN_PYTHON "numpy"},
    [GGUF] = {"GGUF or GGML, the weights of a language model, which no network here has"},
    [FLAX] = {"weights of Flax: flax.serialization.msgpack_restore reads them" IN_PYTHON "flax"},
    [CAFFE] = {"a file of Caffe: convert it to ONNX first" BY_ONNX},
    [PADDLE] = {"a file of PaddlePaddle: paddle2onnx makes ONNX of it" BY_ONNX},
    [BARE] = {"a description of layers, as of OpenVINO and ncnn: convert the model that it was made from"},
    [BUILT] =
        {"a network that was built for one device, as by TensorRT: convert the ONNX file that it was made from, by "
         "spcore_convert.py NAME.onnx -o NAME"},
    [APPLE] = {"a network of Core ML: convert the model that it was made from, by spcore_convert.py"},
    [ARCHIVE] = {"an archive: unpack it, and name the file in it"},
};

static const struct {
  const char *ending;
  int kind;
} endings[] = {
    {".safetensors.index.json", LIST},
    {".pth", PICKLE},
    {".pt", PICKLE},
    {".bin", PICKLE},
    {".ckpt", PICKLE},
    {".pkl", PICKLE},
    {".pickle", PICKLE},
    {".onnx", ONNX},
    {".npz", ARRAYS},
    {".npy", ARRAYS},
    {".h5", KERAS},
    {".hdf5", KERAS},
    {".keras", KERAS},
    {".tflite", LITE},
    {".pb", GRAPH},
    {".index", GRAPH},
    {".mat", MATLAB},
    {".gguf", GGUF},
    {".ggml", GGUF},
    {".msgpack", FLAX},
    {".caffemodel", CAFFE},
    {".prototxt", CAFFE},
    {".pdparams", PADDLE},
    {".pdmodel", PADDLE},
    {".xml", BARE},
    {".param", BARE},
    {".engine", BUILT},
    {".plan", BUILT},
    {".trt", BUILT},
    {".mlmodel", APPLE},
    {".zip", ARCHIVE},
    {".gz", ARCHIVE},
    {".7z", ARCHIVE},
    {".rar", ARCHIVE},
    {".tgz", ARCHIVE},
};

static const struct {
  int at, n;
  const char *bytes;
  int kind;
} magics[] = {
    {0, 4, "GGUF", GGUF},         {0, 4, "lmgg", GGUF}, {0, 4, "tjgg", GGUF},        {0, 4, "fmgg", GGUF},
    {0, 6, "\x89HDF\r\n", KERAS}, {4, 4, "TFL3", LITE}, {0, 6, "\x93NUMPY", ARRAYS}, {0, 7, "MATLAB ", MATLAB},
};

static bool ends_in(const char *path, const char *end) {
  size_t n = strlen(path), m = strlen(end);
  return n >= m && !strcasecmp(path + n - m, end);
}

/* What torch.save() writes begins so: a pickle, or a zip of one; older ones are tar files. */
static bool may_be_pickle(const char *p, ssize_t n) {
  return n < 4 || p[0] == '\x80' || !memcmp(p, "PK\3\4", 4) || (n > 262 && !memcmp(p + 257, "ustar", 5));
}

bool sp_foreign_words(const char *path, sp_sb *sb) {
  char first[512] = "";
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), kind = -1;
  ssize_t n = fd < 0 ? -1 : pread(fd, first, sizeof first, 0);
  if (fd >= 0) close(fd);
  for (size_t i = 0; kind < 0 && i < SP_ARRAY(endings); i++)
    if (ends_in(path, endings[i].ending)) kind = endings[i].kind;
  for (size_t i = 0; i < SP_ARRAY(magics); i++)
    if (n >= magics[i].at + magics[i].n && !memcmp(first + magics[i].at, magics[i].bytes, (size_t)magics[i].n))
      kind = magics[i].kind;
  if (kind < 0) return false;
  if (kind == PICKLE && !may_be_pickle(first, n))
    sp_sb_put(
        sb,
        "its ending is one of PyTorch, and its first bytes are not; get it again, or convert it by the program that "
        "wrote it");
  else
    sp_sb_putf(sb, "%s%s%s", words[kind].is, words[kind].behind ? path : "",
               words[kind].behind ? words[kind].behind : "");
  return true;
}
