/* SPDX-License-Identifier: MIT
 * classifier_cuda.c - the stage `classifier` on CUDA. */
#include "classifier.h"

#include "../../kits/nn/cuda/cuda_stage.h"

NN_CUDA_STAGE(classifier, CLASSIFIER_DOC);
