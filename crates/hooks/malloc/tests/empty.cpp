// Asks for nothing, in every way. Prints how many blocks it has.
#include <cstdio>
#include <cstdlib>

int main() {
  static void *blocks[] = {std::malloc(0), std::calloc(0, 5), std::calloc(5, 0), std::realloc(nullptr, 0),
                           std::aligned_alloc(64, 0), new char[0], ::operator new(0)};
  int n = 0;
  for (void *block : blocks) n += block != nullptr;
  for (int i = 0; i < 1000; i++) {
    void *volatile block = std::malloc(0);
    std::free(block);
  }
  std::printf("%d 0\n", n);
}
