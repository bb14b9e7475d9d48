// Working memory.
#pragma once
#include <memory>
#include <new>

#include "floats.h"

namespace symlight::v1 {

// Rows of one type, 64 bytes aligned and padded; what is added to a row stays zero.
template <typename T>
class Rows {
   public:
    void reserve(int rows, int64_t width) {
        stride_ = padded(width * int64_t(sizeof(T)), 64) / int64_t(sizeof(T));
        data_.reset(new (std::align_val_t(64)) T[rows * stride_]());
    }
    T* operator[](int row) { return data_.get() + row * stride_; }
    int64_t stride() const { return stride_; }

   private:
    struct Delete {
        void operator()(T* data) const { ::operator delete[](data, std::align_val_t(64)); }
    };
    int64_t stride_ = 0;
    std::unique_ptr<T[], Delete> data_;
};

}  // namespace symlight::v1
