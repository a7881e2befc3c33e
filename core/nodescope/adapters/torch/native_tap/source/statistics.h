// Statistics of a CPU tensor, as in `nodescope.record.summary`, computed from its memory without a copy.
// Counts, extremes and histogram are exact; moments are exact up to the order of summation.
#pragma once
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

namespace nodescope {

constexpr int kBins = 32, kPreview = 8, kBlock = 2048, kLanes = 16, kManyFloats = 64;
constexpr int64_t kLeastRow = 64, kMostGathered = 4 << 20;  // bytes

// The layout that the recorder reads in Python: see `blocks.py`.
struct Statistics {
  double low, high, mean, deviation, norm;
  int64_t finite, nan, inf, zero, previewed;
  uint64_t histogram[kBins];
  double preview[kPreview];
};

#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__)
#define NODESCOPE_VECTORISED __attribute__((optimize("O3"), target_clones("avx512f", "avx2", "default")))
#else
#define NODESCOPE_VECTORISED
#endif

// A checksum of all bytes, computed in lanes that the compiler vectorises: the sum of the words, and a sum that
// weighs each word by its position. Changes of two words in one lane, or of any words in different lanes, do not
// cancel each other out.
NODESCOPE_VECTORISED inline uint64_t sum_of(const char* data, int64_t bytes) {
  constexpr int kWords = 8;
  uint64_t sums[kWords] = {0}, weighed[kWords] = {0}, words[kWords];
  int64_t at = 0;
  for (; at + int64_t(sizeof words) <= bytes; at += sizeof words) {
    std::memcpy(words, data + at, sizeof words);
    for (int i = 0; i < kWords; i++) { sums[i] += words[i]; weighed[i] += sums[i]; }
  }
  std::memset(words, 0, sizeof words);
  std::memcpy(words, data + at, size_t(bytes - at));
  uint64_t sum = uint64_t(bytes);
  for (int i = 0; i < kWords; i++) {
    sums[i] += words[i];
    weighed[i] += sums[i];
    sum = (sum ^ sums[i]) * 0x9e3779b97f4a7c15ull;
    sum = (sum ^ sum >> 29 ^ weighed[i]) * 0xbf58476d1ce4e5b9ull;
    sum ^= sum >> 32;
  }
  return sum;
}

struct Totals { double low, high, sum, squares; int64_t zero; };

// Totals of a block on the assumption that all elements are finite; they are valid if `squares` is finite.
template <class T>
inline __attribute__((always_inline)) Totals total_of(const T* block, int many) {
  T low[kLanes], high[kLanes];
  double sum[kLanes], squares[kLanes];
  int32_t zero[kLanes];
  for (int j = 0; j < kLanes; j++) { low[j] = INFINITY; high[j] = -INFINITY; sum[j] = squares[j] = 0; zero[j] = 0; }
  int whole = many - many % kLanes;
  for (int i = 0; i < whole; i += kLanes)
    for (int j = 0; j < kLanes; j++) {
      T x = block[i + j];
      low[j] = x < low[j] ? x : low[j];
      high[j] = x > high[j] ? x : high[j];
      zero[j] += x == T(0);
      double wide = x;
      sum[j] += wide;
      squares[j] += wide * wide;
    }
  for (int i = whole, j = 0; i < many; i++, j++) {
    T x = block[i];
    low[j] = x < low[j] ? x : low[j];
    high[j] = x > high[j] ? x : high[j];
    zero[j] += x == T(0);
    sum[j] += double(x);
    squares[j] += double(x) * double(x);
  }
  Totals all{INFINITY, -INFINITY, 0, 0, 0};
  for (int j = 0; j < kLanes; j++) {
    all.low = std::min(all.low, double(low[j]));
    all.high = std::max(all.high, double(high[j]));
    all.sum += sum[j];
    all.squares += squares[j];
    all.zero += zero[j];
  }
  return all;
}
NODESCOPE_VECTORISED inline Totals total(const float* block, int many) { return total_of(block, many); }
NODESCOPE_VECTORISED inline Totals total(const double* block, int many) { return total_of(block, many); }

// Compute the histogram bin of each element.
template <class T>
inline __attribute__((always_inline)) void placed_of(const T* block, int many, double low, double scale, uint8_t* places) {
  for (int i = 0; i < many; i++) {
    int32_t bin = int32_t((double(block[i]) - low) * scale);
    places[i] = uint8_t(bin < kBins ? bin : kBins - 1);
  }
}
NODESCOPE_VECTORISED inline void placed(const float* block, int many, double low, double scale, uint8_t* places) {
  placed_of(block, many, low, scale, places);
}
NODESCOPE_VECTORISED inline void placed(const double* block, int many, double low, double scale, uint8_t* places) {
  placed_of(block, many, low, scale, places);
}

// The sum of squared distances from the mean.
template <class T>
inline __attribute__((always_inline)) double centred_of(const T* block, int many, double mean) {
  double squares[kLanes] = {};
  int whole = many - many % kLanes;
  for (int i = 0; i < whole; i += kLanes)
    for (int j = 0; j < kLanes; j++) {
      double apart = double(block[i + j]) - mean;
      squares[j] += apart * apart;
    }
  for (int i = whole, j = 0; i < many; i++, j++) squares[j] += (double(block[i]) - mean) * (double(block[i]) - mean);
  double sum = 0;
  for (double part : squares) sum += part;
  return sum;
}
NODESCOPE_VECTORISED inline double centred(const float* block, int many, double mean) { return centred_of(block, many, mean); }
NODESCOPE_VECTORISED inline double centred(const double* block, int many, double mean) { return centred_of(block, many, mean); }

// Count the elements of each bin. Neighbours use different tables, as equal ones would wait for the same counter.
constexpr int kTables = 4;
inline void count_in(uint64_t* counts, const uint8_t* places, int many) {
  uint32_t tables[kTables][kBins] = {};
  int i = 0;
  for (; i + kTables <= many; i += kTables) {
    tables[0][places[i]]++; tables[1][places[i + 1]]++; tables[2][places[i + 2]]++; tables[3][places[i + 3]]++;
  }
  for (; i < many; i++) tables[0][places[i]]++;
  for (auto& table : tables)
    for (int bin = 0; bin < kBins; bin++) counts[bin] += table[bin];
}

inline bool is_summarised(at::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat: case at::kDouble: case at::kBFloat16: case at::kHalf: case at::kByte: case at::kChar:
    case at::kShort: case at::kInt: case at::kLong: case at::kBool: return true;
    default: return false;
  }
}

template <class T>
void convert_from(const char* from, int64_t stride, int many, double* to) {
  const T* items = (const T*)from;
  for (int i = 0; i < many; i++) to[i] = double(items[i * stride]);
}

inline void convert(at::ScalarType dtype, const char* from, int64_t stride, int many, double* to) {
  switch (dtype) {
    case at::kFloat: return convert_from<float>(from, stride, many, to);
    case at::kDouble: return convert_from<double>(from, stride, many, to);
    case at::kBFloat16: return convert_from<c10::BFloat16>(from, stride, many, to);
    case at::kHalf: return convert_from<c10::Half>(from, stride, many, to);
    case at::kByte: case at::kBool: return convert_from<uint8_t>(from, stride, many, to);
    case at::kChar: return convert_from<int8_t>(from, stride, many, to);
    case at::kShort: return convert_from<int16_t>(from, stride, many, to);
    case at::kInt: return convert_from<int32_t>(from, stride, many, to);
    default: return convert_from<int64_t>(from, stride, many, to);
  }
}

// Numbers in memory: the elements of a tensor, or a single number.
struct Array {
  at::ScalarType dtype;
  const void* data;
  c10::IntArrayRef sizes, strides;

  Array(at::ScalarType dtype, const void* data) : dtype(dtype), data(data) {}
  Array(const at::Tensor& tensor)
      : dtype(tensor.scalar_type()), data(tensor.const_data_ptr()), sizes(tensor.sizes()), strides(tensor.strides()) {}
};

// The elements of an array in blocks, in memory order.
class Blocks {
 public:
  Blocks(const Array& array) : dtype_(array.dtype), size_(c10::elementSize(array.dtype)), data_((const char*)array.data) {
    auto sizes = array.sizes, strides = array.strides;
    c10::SmallVector<int, 6> order;
    for (int i = 0; i < int(sizes.size()); i++) if (sizes[i] != 1) order.push_back(i);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return strides[a] > strides[b]; });
    for (int i : order) {
      if (!sizes_.empty() && strides_.back() == strides[i] * sizes[i]) { sizes_.back() *= sizes[i]; strides_.back() = strides[i]; }
      else { sizes_.push_back(sizes[i]); strides_.push_back(strides[i]); }
    }
    if (sizes_.empty()) { sizes_.push_back(1); strides_.push_back(1); }
  }

  // The elements as one contiguous run in memory order: the array's own memory, or `gathered`, into which rows of
  // sufficient length are copied. nullptr if the innermost stride is not 1, rows are short, or elements are too many.
  const char* in_a_row(std::vector<char>& gathered) const {
    int inner = int(sizes_.size()) - 1;
    if (strides_[inner] != 1) return nullptr;
    if (!inner) return data_;
    int64_t length = sizes_[inner] * size_, bytes = length;
    for (int axis = 0; axis < inner; axis++) bytes *= sizes_[axis];
    if (length < kLeastRow || bytes > kMostGathered) return nullptr;
    if (gathered.size() < size_t(bytes)) gathered.resize(size_t(bytes));
    char* to = gathered.data();
    rows([&](const char* row) {
      std::memcpy(to, row, size_t(length));
      to += length;
    });
    return gathered.data();
  }

  bool are_floats() const { return dtype_ == at::kFloat; }

  // Call take(elements, count) for each block, with floats or doubles.
  template <class Take>
  void each(Take take) const {
    double buffer[kBlock];
    int inner = int(sizes_.size()) - 1, filled = 0;
    int64_t length = sizes_[inner], stride = strides_[inner];
    bool direct = stride == 1 && (dtype_ == at::kFloat || dtype_ == at::kDouble) && (inner == 0 || length >= kBlock / 4);
    rows([&](const char* row) {
      for (int64_t at = 0; at < length;) {
        const char* from = row + at * stride * size_;
        int many = int(std::min<int64_t>(length - at, direct ? kBlock : kBlock - filled));
        at += many;
        if (direct) {
          if (dtype_ == at::kFloat) take((const float*)from, many); else take((const double*)from, many);
          continue;
        }
        convert(dtype_, from, stride, many, buffer + filled);
        filled += many;
        if (filled == kBlock) { take((const double*)buffer, filled); filled = 0; }
      }
    });
    if (filled) take((const double*)buffer, filled);
  }

 private:
  // Call take(first element) for each row of the innermost axis.
  template <class Take>
  void rows(Take take) const {
    c10::SmallVector<int64_t, 6> index(sizes_.size(), 0);
    const char* row = data_;
    for (;;) {
      take(row);
      int axis = int(sizes_.size()) - 2;
      for (; axis >= 0; axis--) {
        row += strides_[axis] * size_;
        if (++index[axis] < sizes_[axis]) break;
        row -= strides_[axis] * sizes_[axis] * size_;
        index[axis] = 0;
      }
      if (axis < 0) return;
    }
  }

  at::ScalarType dtype_;
  int64_t size_;
  const char* data_;
  c10::SmallVector<int64_t, 6> sizes_, strides_;
};

template <class T>
int keep_finite(const T* block, int many, double* kept, Statistics* counts) {
  int count = 0;
  for (int i = 0; i < many; i++) {
    double x = block[i];
    if (std::isfinite(x)) kept[count++] = x;
    else if (counts) (std::isnan(x) ? counts->nan : counts->inf)++;
  }
  return count;
}

inline void preview(const Array& array, int64_t count, Statistics& to) {
  c10::SmallVector<int64_t, 6> index(array.sizes.size(), 0);
  const char* item = (const char*)array.data;
  int64_t size = c10::elementSize(array.dtype);
  to.previewed = std::min<int64_t>(count, kPreview);
  for (int i = 0; i < to.previewed; i++) {
    convert(array.dtype, item, 1, 1, &to.preview[i]);
    for (int64_t axis = int64_t(array.sizes.size()) - 1; axis >= 0; axis--) {
      item += array.strides[axis] * size;
      if (++index[axis] < array.sizes[axis]) break;
      item -= array.strides[axis] * array.sizes[axis] * size;
      index[axis] = 0;
    }
  }
}

// The native core's function for contiguous float32, which is faster: (elements, count, moments from low to norm,
// zeros, bins) -> whether they were filled. nullptr without the native core.
using FloatStatistics = int (*)(const float*, int64_t, double*, int64_t*, uint64_t*);
inline FloatStatistics float_statistics = nullptr;

// Compute the statistics of an array with at least one element, given its blocks, and its contiguous elements or
// nullptr. Returns false where float64 would overflow or lose digits.
inline bool summarise(const Array& array, const Blocks& blocks, const char* in_a_row, int64_t count, Statistics& to) {
  std::memset(&to, 0, sizeof to);
  if (float_statistics && in_a_row && blocks.are_floats() && count >= kManyFloats) {
    double moments[5];
    if (float_statistics((const float*)in_a_row, count, moments, &to.zero, to.histogram)) {
      to.low = moments[0], to.high = moments[1], to.mean = moments[2], to.deviation = moments[3], to.norm = moments[4];
      to.finite = count;
      preview(array, count, to);
      return true;
    }
  }
  double sum = 0, squares = 0;
  bool all_finite = true;
  to.low = INFINITY;
  to.high = -INFINITY;
  blocks.each([&](auto* block, int many) {
    Totals part = total(block, many);
    if (!(part.squares < INFINITY)) {
      double kept[kBlock];
      int count = keep_finite(block, many, kept, &to);
      all_finite &= count == many;
      many = count;
      part = total(kept, many);
    }
    if (!many) return;
    to.finite += many;
    to.zero += part.zero;
    to.low = std::min(to.low, part.low);
    to.high = std::max(to.high, part.high);
    sum += part.sum;
    squares += part.squares;
  });
  preview(array, count, to);
  if (!to.finite) return true;
  double low = to.low += 0.0, high = to.high += 0.0;  // turns an extreme of -0.0 into 0.0
  double most = std::max(std::fabs(low), std::fabs(high));
  if (most != 0.0 && !(most >= 0x1p-300 && most < 0x1p300)) return false;
  double mean = to.mean = std::min(std::max(sum / double(to.finite), low), high);
  to.norm = std::sqrt(squares);
  if (low == high) { to.histogram[0] = to.finite; return true; }
  double scale = kBins / (high - low);
  // The variance comes from the sums, unless too many digits would cancel.
  double spread = squares - sum * (sum / double(to.finite));
  bool apart = !(spread > 1e-3 * squares);
  double far = 0;
  blocks.each([&](auto* block, int many) {
    uint8_t places[kBlock];
    auto one = [&](auto* block, int many) {
      placed(block, many, low, scale, places);
      if (C10_UNLIKELY(apart)) far += centred(block, many, mean);
    };
    if (C10_UNLIKELY(!all_finite)) {
      double kept[kBlock];
      many = keep_finite(block, many, kept, nullptr);
      one((const double*)kept, many);
    }
    else one(block, many);
    count_in(to.histogram, places, many);
  });
  to.deviation = std::sqrt(std::max(apart ? far : spread, 0.0) / double(to.finite));
  return true;
}

// Copy the elements of an array in index order.
template <class T>
void elements_of(const Array& array, T* to) {
  c10::SmallVector<int64_t, 6> sizes, strides;
  for (size_t i = 0; i < array.sizes.size(); i++) {
    if (array.sizes[i] == 1) continue;
    if (!sizes.empty() && strides.back() == array.strides[i] * array.sizes[i]) { sizes.back() *= array.sizes[i]; strides.back() = array.strides[i]; }
    else { sizes.push_back(array.sizes[i]); strides.push_back(array.strides[i]); }
  }
  if (sizes.empty()) { sizes.push_back(1); strides.push_back(1); }
  int inner = int(sizes.size()) - 1;
  int64_t length = sizes[inner], stride = strides[inner];
  c10::SmallVector<int64_t, 6> index(sizes.size(), 0);
  const T* row = (const T*)array.data;
  for (;;) {
    if (stride == 1) std::memcpy(to, row, length * sizeof(T));
    else for (int64_t i = 0; i < length; i++) to[i] = row[i * stride];
    to += length;
    int axis = inner - 1;
    for (; axis >= 0; axis--) {
      row += strides[axis];
      if (++index[axis] < sizes[axis]) break;
      row -= strides[axis] * sizes[axis];
      index[axis] = 0;
    }
    if (axis < 0) return;
  }
}

// Copy all elements of an array in index order; false if they do not have this number of bytes.
inline bool copy_elements(const Array& array, int64_t bytes, char* to) {
  int64_t size = c10::elementSize(array.dtype), count = 1;
  for (int64_t length : array.sizes) count *= length;
  if (count * size != bytes) return false;
  if (!count) return true;
  switch (size) {
    case 1: elements_of(array, (uint8_t*)to); return true;
    case 2: elements_of(array, (uint16_t*)to); return true;
    case 4: elements_of(array, (uint32_t*)to); return true;
    case 8: elements_of(array, (uint64_t*)to); return true;
    default: return false;
  }
}

}  // namespace nodescope
