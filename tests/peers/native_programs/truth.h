/* What a program knows of its own stack, printed for who looks from outside. */
#ifdef __cplusplus
extern "C" {
#endif
#define FUNCTION __attribute__((noinline, noclone))

/* Prints this thread's frames, one line each, from this function's own out:
   "frame THREAD pc before sp rbx rbp r12 r13 r14 r15", as libgcc's unwinder finds them; before is 1 where the pc was
   interrupted. Returns. */
void frames_of_this_thread(void);

/* As that; then the line "ready", and waits for ever, or aborts if the environment has ABORT. Never returns. */
void truth(void);

/* truth(), once this has been called by so many threads; "ready" comes from the last. */
void truth_of_threads(int count);

/* Prints "shadow THREAD address…": the return addresses that functions noted with ENTERED, innermost first. */
void shadow_of_this_thread(void);

/* For functions without tables: they note where they will return to. */
extern __thread void *shadow[1 << 16];
extern __thread int depth;
#define ENTERED (shadow[depth++] = __builtin_return_address(0))
#define LEAVING (depth--)
#ifdef __cplusplus
}
#endif
