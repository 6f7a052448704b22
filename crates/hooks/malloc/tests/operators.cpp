// Allocates with every form of `new`, frees half of it with every form of `delete`, and counts by itself what it has: no
// other block of the process has 100,000 bytes. Prints blocks and bytes that are live at the end. It is a program with
// `main`, and a library with `work` if `PLUGIN` is defined.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>

static const std::nothrow_t &quiet = std::nothrow;
static const std::align_val_t wide{64};
static long n_live, bytes_live;
static bool is_served;

static void *made(int form, std::size_t n) {
  switch (form) {
    case 0: return ::operator new(n);
    case 1: return ::operator new[](n);
    case 2: return ::operator new(n, quiet);
    case 3: return ::operator new[](n, quiet);
    case 4: return ::operator new(n, wide);
    case 5: return ::operator new[](n, wide);
    case 6: return ::operator new(n, wide, quiet);
    default: return ::operator new[](n, wide, quiet);
  }
}

// The forms from 6 on are those of aligned blocks.
static void unmade(int form, void *block, std::size_t n) {
  switch (form) {
    case 0: return ::operator delete(block);
    case 1: return ::operator delete[](block);
    case 2: return ::operator delete(block, quiet);
    case 3: return ::operator delete[](block, quiet);
    case 4: return ::operator delete(block, n);
    case 5: return ::operator delete[](block, n);
    case 6: return ::operator delete(block, wide);
    case 7: return ::operator delete[](block, wide);
    case 8: return ::operator delete(block, wide, quiet);
    case 9: return ::operator delete[](block, wide, quiet);
    case 10: return ::operator delete(block, n, wide);
    default: return ::operator delete[](block, n, wide);
  }
}

struct Stopped {};
static int n_handled;
// A handler may free memory, and end the request with an exception of its own.
static void handler() {
  static void *reserve = ::operator new(900000);
  ::operator delete(reserve);
  reserve = nullptr;
  if (++n_handled == 3) throw Stopped{};
}

// Returns 0, or the number of what is not as the language has it.
static int failures() {
  volatile std::size_t huge = SIZE_MAX / 4;
  try { (void)::operator new(huge); return 11; } catch (const std::bad_alloc &) {}
  try { (void)::operator new[](huge, wide); return 12; } catch (const std::bad_alloc &) {}
  if (::operator new(huge, quiet) || ::operator new[](huge, wide, quiet)) return 13;
  std::set_new_handler(handler);
  try { (void)::operator new(huge); return 14; } catch (const Stopped &) {}
  std::set_new_handler(nullptr);
  ::operator delete(nullptr);
  ::operator delete[](nullptr, wide);
  return n_handled == 3 ? 0 : 15;
}

extern "C" int work() {
  if (int failed = is_served ? 0 : failures()) return failed;
  for (int round = 0; round < 2; round++)
    for (int form = 0; form < 8; form++)
      for (int i = 0; i < 3; i++) {
        // libstdc++ asks for multiples of the alignment.
        std::size_t n = 1024000 + 1024 * form + 64 * i;
        void *block = made(form, n);
        if (form >= 4 && reinterpret_cast<std::uintptr_t>(block) % 64) return 16;
        n_live++;
        bytes_live += n;
        if (round) continue;
        // Each way to free is met.
        unmade(form < 4 ? (form + i * 2) % 6 : 6 + (form + i * 2) % 6, block, n);
        n_live--;
        bytes_live -= n;
      }
  void *all = ::operator new(50 << 20);
  n_live++;
  bytes_live += 50 << 20;
  std::printf("%ld %ld\n", n_live, bytes_live);
  std::fflush(stdout);
  return all == nullptr;
}

#ifndef PLUGIN
// An argument leaves out the requests that fail: mimalloc ends the program there.
int main(int argc, char **) {
  is_served = argc > 1;
  return work();
}
#endif
