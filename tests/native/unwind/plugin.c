/* A library that is loaded and unloaded: a function whose frame has another size in each of its kinds. */
#ifndef ROOM
#define ROOM 64
#endif

int plugin(int (*call)(void *), void *argument) {
    volatile char room[ROOM];
    for (int i = 0; i < ROOM; i += 16)
        room[i] = (char)i;
    return call(argument) + room[0];
}
