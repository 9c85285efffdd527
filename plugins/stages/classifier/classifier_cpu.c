/* SPDX-License-Identifier: MIT
 * classifier_cpu.c - the stage `classifier` on the CPU. */
#include "classifier.h"

#include "../../kits/nn/cpu/cpu_stage.h"

NN_CPU_STAGE(classifier, CLASSIFIER_DOC);
