/* peak -- how fast this core can multiply and add: the rate that no matrix product can pass. */
#ifndef LAB_NN_PEAK_H
#define LAB_NN_PEAK_H

/* One run of the core's widest multiply-add in registers alone, `rounds` times; returns the floating-point operations. */
double peak_run(long rounds);
#endif
