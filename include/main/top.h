#ifndef MAIN_TOP_H
#define MAIN_TOP_H

/* `pgweir top`: a live view of the pools in a terminal, or one screen of plain text. argv[0] is
   "top". Returns the exit status. */
int top_run(int argc, char **argv);

#endif
