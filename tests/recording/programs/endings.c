/* Offloads a few times and then ends as it is told: exit, crash, kill, fork (the child offloads as well). */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void offload(int times) {
  int count = 0;
  for (int i = 0; i < times; i++) {
#pragma omp target map(tofrom : count)
    count++;
  }
  if (count != times)
    exit(3);
}

int main(int argc, char **argv) {
  const char *ending = argc > 1 ? argv[1] : "exit";
  if (!strcmp(ending, "fork")) { /* before the first directive: a device does not survive fork */
    pid_t child = fork();
    offload(child ? 5 : 2);
    if (!child)
      return 0;
    waitpid(child, NULL, 0);
    return 0;
  }
  offload(argc > 2 ? atoi(argv[2]) : 5);
  if (!strcmp(ending, "locks")) { /* twice; the second time it is not free */
    pthread_mutex_t mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
    pthread_mutex_lock(&mutex);
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
    pthread_mutex_unlock(&mutex);
  }
  if (!strcmp(ending, "crash"))
    *(volatile int *)NULL = 1;
  if (!strcmp(ending, "kill"))
    raise(SIGKILL);
  if (!strcmp(ending, "code"))
    return 7;
}
