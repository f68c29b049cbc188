/* kern -- vectorised kernels, compiled once for each instruction set. */
typedef int kern_placeholder;
