// Stands in for PyTorch's libraries: exports its error classes under the same names and in the same layout.
// Built twice: as libc10.so, and with OUT_OF_MEMORY as libc10_cuda.so.
#include <cstdint>
#include <exception>
#include <string>

namespace c10 {
struct SourceLocation {
    const char* function;
    const char* file;
    uint32_t line;
};

class Error : public std::exception {
    std::string msg_;
    SourceLocation place_;

public:
    Error(SourceLocation place, std::string msg);
    ~Error() override;
    const char* what() const noexcept override;
};

class OutOfMemoryError : public Error {
public:
    using Error::Error;
    ~OutOfMemoryError() override;
};

namespace detail {
[[noreturn]] void torchCheckFail(const char* function, const char* file, uint32_t line, const char* msg);
}

#ifdef OUT_OF_MEMORY
OutOfMemoryError::~OutOfMemoryError() { std::exception_ptr seen; }
#else
Error::Error(SourceLocation place, std::string msg) : msg_(std::move(msg)), place_(place) {}
Error::~Error() = default;
const char* Error::what() const noexcept { return msg_.c_str(); }
namespace detail {
void torchCheckFail(const char* function, const char* file, uint32_t line, const char* msg) {
    throw Error({function, file, line}, std::string(msg));
}
}
#endif
}  // namespace c10
