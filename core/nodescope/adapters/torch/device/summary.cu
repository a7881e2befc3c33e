// Summary: computes the statistics of a tensor on its device in one launch. Counts, extremes and the
// histogram are those of `nodescope.record.summary`; moments are equal up to the order of sums.
//
// Compiled for one dtype (the macro DTYPE). The grid is a single block, or blocks that are all
// resident at once: they synchronise after the first pass, and the last block to finish writes the
// row into host memory.
//
// Invariant: the tensor is only read; the counters in the scratch memory are left zero.
typedef long long i64;
typedef unsigned long long u64;

constexpr int kBins = 32, kPreview = 8, kDims = 8, kThreads = 512, kWarps = kThreads / 32;
#define INFINITE __longlong_as_double(0x7ff0000000000000ll)

struct Given {
  u64 data, scratch, row;
  i64 count, dims, previewed;
  i64 sizes[kDims], strides[kDims];  // of the fewest axes, the innermost last
  i64 first[kPreview];               // where the first elements are
};

// As `STATISTICS` of record/blocks.py.
struct Row {
  double low, high, mean, deviation, norm;
  i64 finite, nan, inf, zero, previewed;
  u64 histogram[kBins];
  double preview[kPreview];
};

struct Part { double low, high, sum, squares; i64 nan, inf, zero; };

// In device memory, one per stream: the kernels of a stream run one after the other.
struct Scratch {
  unsigned met, done, unused[2];
  Part parts[1024];
  double centred[1024];
  unsigned counts[1024][kBins];
};

__device__ inline double number_at(const void* data, i64 at) {
#if DTYPE == 0
  return ((const float*)data)[at];
#elif DTYPE == 1
  return ((const double*)data)[at];
#elif DTYPE == 2
  return __int_as_float(int(((const unsigned short*)data)[at]) << 16);
#elif DTYPE == 3
  float wide;
  asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(((const unsigned short*)data)[at]));
  return wide;
#elif DTYPE == 4
  return ((const unsigned char*)data)[at];
#elif DTYPE == 5
  return ((const signed char*)data)[at];
#elif DTYPE == 6
  return ((const short*)data)[at];
#elif DTYPE == 7
  return ((const int*)data)[at];
#else
  return double(((const i64*)data)[at]);
#endif
}

__device__ inline i64 place_of(const Given& given, i64 nth) {
  if (given.dims == 1) return nth * given.strides[0];
  i64 at = 0;
  for (int axis = int(given.dims) - 1; axis > 0; axis--) {
    i64 rest = nth / given.sizes[axis];
    at += (nth - rest * given.sizes[axis]) * given.strides[axis];
    nth = rest;
  }
  return at + nth * given.strides[0];
}

__device__ inline void join(Part& part, const Part& other) {
  part.low = other.low < part.low ? other.low : part.low;
  part.high = other.high > part.high ? other.high : part.high;
  part.sum += other.sum;
  part.squares += other.squares;
  part.nan += other.nan;
  part.inf += other.inf;
  part.zero += other.zero;
}

__device__ inline Part of_warp(Part part) {
  for (int apart = 16; apart; apart >>= 1) {
    Part other;
    other.low = __shfl_down_sync(~0u, part.low, apart);
    other.high = __shfl_down_sync(~0u, part.high, apart);
    other.sum = __shfl_down_sync(~0u, part.sum, apart);
    other.squares = __shfl_down_sync(~0u, part.squares, apart);
    other.nan = __shfl_down_sync(~0u, part.nan, apart);
    other.inf = __shfl_down_sync(~0u, part.inf, apart);
    other.zero = __shfl_down_sync(~0u, part.zero, apart);
    join(part, other);
  }
  return part;
}

__device__ inline Part nothing() { return {INFINITE, -INFINITE, 0, 0, 0, 0, 0}; }

// Joins the parts of all threads of a block; only the first thread gets the whole.
__device__ Part of_block(Part part, Part* shared) {
  part = of_warp(part);
  __syncthreads();
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = part;
  __syncthreads();
  if (threadIdx.x < 32) part = of_warp(threadIdx.x < kWarps ? shared[threadIdx.x] : nothing());
  return part;
}

extern "C" __global__ void __launch_bounds__(kThreads) summary(Given given) {
  __shared__ Part shared[kWarps];
  __shared__ Part all;
  __shared__ unsigned counts[kWarps][kBins];
  __shared__ double centred[kWarps];
  __shared__ bool last;
  const void* data = (const void*)given.data;
  Scratch& scratch = *(Scratch*)given.scratch;
  const unsigned blocks = gridDim.x;
  const i64 stride = i64(blocks) * kThreads, from = i64(blockIdx.x) * kThreads + threadIdx.x;

  Part part = nothing();
#pragma unroll 4
  for (i64 i = from; i < given.count; i += stride) {
    double x = number_at(data, place_of(given, i));
    if (fabs(x) < INFINITE) {
      part.low = x < part.low ? x : part.low;
      part.high = x > part.high ? x : part.high;
      part.sum += x;
      part.squares += x * x;
      part.zero += x == 0.0;
    }
    else if (x == x) part.inf++;
    else part.nan++;
  }
  part = of_block(part, shared);
  if (blocks > 1) {
    if (threadIdx.x == 0) {
      scratch.parts[blockIdx.x] = part;
      __threadfence();
      atomicAdd(&scratch.met, 1u);
      while (*(volatile unsigned*)&scratch.met < blocks) {}
      __threadfence();
    }
    __syncthreads();
    part = nothing();  // every block joins in the same order
    for (unsigned i = threadIdx.x; i < blocks; i += kThreads) {
      const volatile Part& other = scratch.parts[i];
      Part one = {other.low, other.high, other.sum, other.squares, other.nan, other.inf, other.zero};
      join(part, one);
    }
    part = of_block(part, shared);
  }
  if (threadIdx.x == 0) all = part;
  for (int i = threadIdx.x; i < kWarps * kBins; i += kThreads) counts[i / kBins][i % kBins] = 0;
  __syncthreads();

  const i64 finite = given.count - all.nan - all.inf;
  const double low = all.low + 0.0, high = all.high + 0.0;  // turns -0.0 into 0.0
  const bool spread = finite && low < high;
  const double mean = finite ? fmin(fmax(all.sum / double(finite), low), high) : 0.0;
  double far = 0;
  if (spread) {
    const double scale = kBins / (high - low);
    for (i64 i = from; i < given.count; i += stride) {
      double x = number_at(data, place_of(given, i));
      if (!(fabs(x) < INFINITE)) continue;
      int bin = int(__dmul_rn(__dsub_rn(x, low), scale));
      atomicAdd(&counts[threadIdx.x / 32][bin < kBins ? bin : kBins - 1], 1u);
      far += (x - mean) * (x - mean);
    }
  }
  for (int apart = 16; apart; apart >>= 1) far += __shfl_down_sync(~0u, far, apart);
  if (threadIdx.x % 32 == 0) centred[threadIdx.x / 32] = far;
  __syncthreads();
  u64 count = 0;
  double sum = 0;
  if (threadIdx.x < kBins)
    for (int warp = 0; warp < kWarps; warp++) count += counts[warp][threadIdx.x];
  if (threadIdx.x == 0)
    for (int warp = 0; warp < kWarps; warp++) sum += centred[warp];
  if (blocks > 1) {
    if (threadIdx.x < kBins) scratch.counts[blockIdx.x][threadIdx.x] = unsigned(count);
    if (threadIdx.x == 0) scratch.centred[blockIdx.x] = sum;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) last = atomicAdd(&scratch.done, 1u) == blocks - 1;
    __syncthreads();
    if (!last) return;
    __threadfence();
    count = 0;
    sum = 0;
    if (threadIdx.x < kBins)
      for (unsigned i = 0; i < blocks; i++) count += ((volatile unsigned*)scratch.counts[i])[threadIdx.x];
    if (threadIdx.x == 0) {
      for (unsigned i = 0; i < blocks; i++) sum += ((volatile double*)scratch.centred)[i];
      scratch.met = scratch.done = 0;
    }
  }
  Row& row = *(Row*)given.row;
  if (threadIdx.x < kBins) {
    if (!spread) count = threadIdx.x == 0 ? u64(finite) : 0;
    row.histogram[threadIdx.x] = count;
  }
  if (threadIdx.x < kPreview)
    row.preview[threadIdx.x] = threadIdx.x < given.previewed ? number_at(data, given.first[threadIdx.x]) : 0.0;
  if (threadIdx.x == 0) {
    // Where squares in float64 would overflow or lose digits, the row is marked as invalid.
    double most = fmax(fabs(low), fabs(high));
    bool safe = !finite || most == 0.0 || (most >= 0x1p-300 && most < 0x1p300);
    row.low = low;
    row.high = high;
    row.mean = mean;
    row.deviation = finite ? sqrt(sum / double(finite)) : 0.0;
    row.norm = sqrt(all.squares);
    row.finite = finite;
    row.nan = all.nan;
    row.inf = all.inf;
    row.zero = all.zero;
    row.previewed = safe ? given.previewed : -1;
  }
  __threadfence_system();
}
