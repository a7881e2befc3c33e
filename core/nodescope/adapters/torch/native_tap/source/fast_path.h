// FastPath: the fast path through a step. While each operator matches the script's next item, with the
// same operands, only its start, end and statistics are recorded here, and Python is not called.
//
// The script is a step that Python has observed. At the first operator that differs, Python gets the
// position up to which the step followed the script, and observes the rest operator by operator.
//
// Guarded by the lock of `storages()`; notes are written by the script's thread alone.
#pragma once
#include "script.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>

#include <atomic>
#include <memory>

namespace nodescope {

struct Note { int64_t start, end; };

// A generator's state before an operator, also before one that does not match the script after all.
struct Drawn { uint32_t position; std::string state; };

// The memory for copies of elements, see `hold` in following.h.
struct Room {
  char* memory = nullptr;
  int64_t size = 0;
  int64_t at = 0, taken = 0;          // bytes that are filled, and bytes that Python has taken
};

struct Varied { uint32_t position; std::vector<Plain> plain; };

enum class Mode : int { slow, recording, fast };

class FastPath {
 public:
  std::atomic<Mode> mode{Mode::slow};
  std::atomic<bool> interrupted{false};
  const void* thread = nullptr;       // the thread whose operators are recorded or followed
  const void* other = nullptr;        // the thread on which autograd computes a device's gradients in this step
  int64_t flushed_ns = 0;             // when Python took records last
  bool full = false;                  // the room for copies is too small for the next operator

  // ------------------------------------------------------------ recording

  uint64_t record(const void* of_thread) {
    std::lock_guard<std::mutex> guard(storages().lock);
    leave();
    raw_.clear();
    other = nullptr;
    busy_ = nullptr;
    before_ = capturing_ ? counted_ : storages().count();
    capturing_ = false;
    whole_ = true;
    recording_++;
    thread = of_thread;
    mode = Mode::recording;
    return before_;
  }

  // Record that an operator begins; `captured` completes the item.
  Item capture(Operator& op, c10::ArrayRef<const c10::IValue> given, int64_t place, const void* by) {
    std::lock_guard<std::mutex> guard(storages().lock);
    Item item;
    int64_t number = int64_t(at::sequence_number::peek());
    item.other = by != thread;
    counted_ = storages().count();
    capturing_ = true;
    fresh_.clear();
    if (raw_.empty()) base_ = number;
    if (item.other && !other) { other = by; other_base_ = number; }
    item.op = &op;
    item.recording = recording_;
    item.place = place;
    item.before = number - (item.other ? other_base_ : base_);
    item.node = node_now(base_);
    item.sound = facts(given, item.inputs, item.structure, &item);
    return item;
  }

  void captured(Item&& item, c10::ArrayRef<const c10::IValue> returned) {
    std::lock_guard<std::mutex> guard(storages().lock);
    capturing_ = false;
    item.after = int64_t(at::sequence_number::peek()) - (item.other ? other_base_ : base_);
    item.sound = item.sound && facts(returned, item.outputs, item.returned, nullptr);
    for (auto* facts : {&item.inputs, &item.outputs})
      for (auto& fact : *facts) item.enqueued |= fact.device >= 0;
    if (mode != Mode::recording) return;
    if (item.recording == recording_) raw_.push_back(std::move(item));
    else whole_ = false;  // a new recording began while the operator ran
  }

  // Mark the recorded step as unusable for a script.
  void spoil() { whole_ = false; }

  const std::vector<Item>& raw() const { return raw_; }
  bool whole() const { return whole_; }

  // Make a script of the recorded items; `numbers` gets the storage number of each slot.
  std::shared_ptr<Script> make(std::vector<uint64_t>& numbers) {
    std::lock_guard<std::mutex> guard(storages().lock);
    auto script = std::make_shared<Script>();
    script->items = std::move(raw_);
    raw_.clear();
    ska::flat_hash_map<uint64_t, uint32_t> slots;
    for (auto& item : script->items) {
      for (auto* facts : {&item.inputs, &item.outputs})
        for (auto& fact : *facts) {
          auto known = slots.emplace(fact.number, uint32_t(script->slots.size()));
          if (known.second) {
            script->slots.push_back(fact.number > before_ ? 0 : fact.number);
            numbers.push_back(fact.number);
          }
          fact.slot = known.first->second;
          if (fact.device >= 0) script->device = fact.device;
        }
      item.statistics = script->statistics;
      script->statistics += item.leaves.size() + item.results.size();
    }
    return script;
  }

  // ------------------------------------------------------------ following

  // Follow a script. `states` is the most bytes of generator states that may be recorded; `checked` are
  // pairs of a slot and the version counter that its tensor must have.
  void follow(std::shared_ptr<Script> script, const void* of_thread, bool with_statistics, int64_t now, int64_t states,
              const std::vector<std::pair<uint32_t, int64_t>>& checked) {
    std::lock_guard<std::mutex> guard(storages().lock);
    leave();
    rested_ = false;
    if (script != script_) {
      sources_.assign(script->statistics, {});
      script_ = std::move(script);
      bound_.assign(script_->slots.size(), nullptr);
      notes_.assign(script_->items.size(), {});
      versions_.assign(script_->slots.size(), -1);
    }
    else std::fill(bound_.begin(), bound_.end(), nullptr);
    checked_.assign(script_->slots.size(), -1);
    for (auto& one : checked) if (one.first < checked_.size()) checked_[one.first] = one.second;
    states_left_ = states;
    drawn_.clear();
    full = false;
    with_statistics_ = with_statistics;
    if (with_statistics) statistics_.resize(script_->statistics);
    position_ = taken_ = 0;
    varied_.clear();
    cycle_++;
    if (capturing_)  // storages first seen in the step's first operator are new to the step
      for (const void* address : fresh_) storages().forget(address);
    capturing_ = false;
    thread = of_thread;
    other = nullptr;
    busy_ = nullptr;
    table_ = with_statistics ? (rows_ ? rows_ : statistics_.data()) : nullptr;
    flushed_ns = now;
    interrupted = false;
    only_ = at::getStepCallbacks(at::RecordScope::FUNCTION).callbacks_.size() <= 1;
    mode = Mode::fast;
  }

  // Whether callbacks should be switched off for operators within the running one: there are no
  // callbacks except the observer's, which does not need these operators. If the operator has no inner
  // operators, switching callbacks off would not save anything.
  bool needs_nothing_within() const { return only_ && !saves_ && nests_; }

  // Stop following; return the number of followed items.
  size_t stop() {
    std::lock_guard<std::mutex> guard(storages().lock);
    leave();
    return position_;
  }

  // Stop: nothing is observed for now.
  void rest() {
    stop();
    capturing_ = false;
    rested_ = true;
  }

  void reuse(Script& script, std::vector<int32_t> same) {
    std::lock_guard<std::mutex> guard(storages().lock);
    script.same = std::move(same);
    script.same.resize(script.statistics, kAlone);
  }

  // Set the value ids of the parameter and the gradient of each arrival.
  void pairs(Script& script, const int64_t* values, size_t many) {
    std::lock_guard<std::mutex> guard(storages().lock);
    for (size_t i = 0; i < script.items.size() && i < many; i++) {
      script.items[i].value = values[2 * i];
      script.items[i].gradient = values[2 * i + 1];
    }
  }

  // Set how many bytes of each output are copied.
  void keep(Script& script, std::vector<int64_t> bytes) {
    std::lock_guard<std::mutex> guard(storages().lock);
    script.kept = std::move(bytes);
    script.kept.resize(script.statistics, 0);
    for (auto& item : script.items) {
      item.bytes = 0;
      for (size_t at = 0; at < item.leaves.size() + item.results.size(); at++) item.bytes += aligned(script.kept[item.statistics + at]);
    }
  }

  // Whether a thread's operators belong to the step: true for the script's thread, and for the thread on which
  // autograd computes a device's gradients while the script's thread waits for it.
  bool is_ours(const void* by, c10::ArrayRef<const c10::IValue> given) const {
    if (by == thread) return true;
    if (mode.load(std::memory_order_relaxed) == Mode::slow || !device().known) return false;
    if (other) return by == other;
    if (!torch::autograd::get_current_node()) return false;
    for (const auto& value : given) {
      if (value.isTensor() && value.toTensor().defined() && device().index_of(value.toTensor()) >= 0) return true;
      if (value.isTensorList())
        for (const at::Tensor& tensor : value.toTensorVector()) if (tensor.defined() && device().index_of(tensor) >= 0) return true;
    }
    return false;
  }

  // Check whether an operator is the script's next one; if so, `end` has to be called.
  bool begin(Operator& op, c10::ArrayRef<const c10::IValue> given, int64_t place, const void* by) {
    std::vector<c10::IValue> dropped;  // freed after the lock is released, as freeing a tensor may need the GIL
    std::lock_guard<std::mutex> guard(storages().lock);
    Item* item = next();
    if (!item || busy_ || item->op != &op || item->place != place || item->other != (by != thread)) return false;
    int64_t number = int64_t(at::sequence_number::peek());
    if (!position_) base_ = number;
    if (item->other && !other) { other = by; other_base_ = number; }
    if (number - (item->other ? other_base_ : base_) != item->before || node_now(base_) != item->node) return false;
    tensors_.clear();
    varies_ = false;
    size_t at = 0;
    held_.assign(given.begin(), given.end());
    bool same = matches(boxed(held_), item->inputs, [&](int32_t kind) { return at < item->structure.size() && item->structure[at++] == kind; },
                        [&, plain = size_t(0)](uint32_t, const c10::IValue& value) mutable {
      if (plain >= item->plain.size()) return false;
      Same one = compare(item->plain[plain++].value, value);
      varies_ |= one == Same::varied;
      return one != Same::no;
    });
    if (!same || at != item->structure.size() || (varies_ && (!item->reported || item->seeded)) ||
        (room_.memory && item->bytes > room_.size - room_.at)) {
      std::swap(held_, dropped);
      return false;
    }
    filled_ = room_.at;
    enqueues_ = false;
    if (item->enqueued && !device().here()) { std::swap(held_, dropped); return false; }
    if (with_statistics_) {
      uint32_t place = item->statistics;
      for (uint32_t leaf : item->leaves) {
        note_version(item->inputs[leaf].slot, *tensors_[leaf]);
        if (!summed(*tensors_[leaf], place) || !kept(*tensors_[leaf], place++)) { std::swap(held_, dropped); return false; }
      }
    }
    else for (uint32_t leaf : item->leaves) note_version(item->inputs[leaf].slot, *tensors_[leaf]);
    if (C10_UNLIKELY(enqueues_)) { if (!device().note(-1)) { std::swap(held_, dropped); return false; } }
    if (item->draws && with_statistics_ && states_left_ > 0) note_state(given);
    for (auto& hook : item->hooked) hooked_.push_back({hook.second, *tensors_[hook.first]});
    busy_ = by;
    saves_ = item->saves;
    nests_ = item->nests;
    return true;
  }

  // Check whether the operator's results match the script, and record it if so; if not, `held` returns its operands.
  bool end(c10::ArrayRef<const c10::IValue> returned, int64_t start, int64_t end) {
    std::vector<c10::IValue> dropped;
    std::lock_guard<std::mutex> guard(storages().lock);
    busy_ = nullptr;
    Item* item = next();
    if (!item) return false;
    if (item->reported) {
      if (int64_t(at::sequence_number::peek()) - (item->other ? other_base_ : base_) != item->after) return false;
      results_.clear();
      std::swap(results_, tensors_);
      size_t at = 0;
      bool same = matches(returned, item->outputs, [&](int32_t kind) { return at < item->returned.size() && item->returned[at++] == kind; },
                          [](uint32_t, const c10::IValue&) { return true; }) && at == item->returned.size();
      std::swap(results_, tensors_);
      if (!same) return false;
      if (item->enqueued && (!device().here() || !device().note(int64_t(position_)))) return false;
      enqueues_ = false;
      if (with_statistics_) {
        uint32_t place = item->statistics + uint32_t(item->leaves.size());
        for (int32_t result : item->results) {
          bool told;
          if (result == kScalar) told = number(returned, table_[place], place);
          else {
            const at::Tensor& tensor = result >= 0 ? *results_[result] : *tensors_[-1 - result];
            told = summed(tensor, place) && kept(tensor, place);
          }
          if (!told) return false;
          place++;
        }
      }
      if (enqueues_ && !device().note(-1)) return false;
      for (int32_t result : item->results) {
        if (result >= 0) note_version(item->outputs[result].slot, *results_[result]);
        else if (result != kScalar) note_version(item->inputs[-1 - result].slot, *tensors_[-1 - result]);
      }
      if (C10_UNLIKELY(varies_)) {
        Varied varied{uint32_t(position_), {}};
        each_part(boxed(held_), [](int32_t) { return true; }, [](const at::Tensor&) { return true; },
                  [&](uint32_t argument, const c10::IValue& value) { varied.plain.push_back({argument, value}); return true; });
        varied_.push_back(std::move(varied));
      }
      notes_[position_] = {start, end};
    }
    std::swap(held_, dropped);
    position_++;
    if (room_.memory) {
      room_.at = filled_;
      size_t at = position_;
      while (at < script_->items.size() && !script_->items[at].op) at++;
      full = at < script_->items.size() && script_->items[at].bytes > room_.size - room_.at;
    }
    return true;
  }

  // Whether the arrival of a parameter's gradient is the script's next item, which is then passed.
  bool arrived(const at::Tensor& parameter, const at::Tensor& gradient, int64_t place, const void* by) {
    std::lock_guard<std::mutex> guard(storages().lock);
    Item* item = next();
    if (!item || busy_ || item->op || item->place != place || item->other != (by != thread)) return false;
    tensors_.clear();
    c10::IValue given[] = {parameter, gradient};
    if (!matches(given, item->inputs, [](int32_t) { return true; }, [](uint32_t, const c10::IValue&) { return true; })) return false;
    position_++;
    return true;
  }

  // The value ids of the script's next item if it is an arrival; else (0, 0).
  std::pair<int64_t, int64_t> pair() {
    std::lock_guard<std::mutex> guard(storages().lock);
    Item* item = next();
    return item && !item->op ? std::make_pair(item->value, item->gradient) : std::make_pair(int64_t(0), int64_t(0));
  }

  void arrival(const at::Tensor& parameter, const at::Tensor& gradient, int64_t place, const void* by) {
    std::lock_guard<std::mutex> guard(storages().lock);
    Item item;
    item.place = place;
    item.other = by != thread;
    c10::IValue given[] = {parameter, gradient};
    item.sound = facts(given, item.inputs, item.structure, &item);
    item.reported = true;
    if (mode == Mode::recording) raw_.push_back(std::move(item));
  }

  // Operands of the operator that has begun that need a gradient hook, with their value ids.
  std::vector<std::pair<int64_t, at::Tensor>> hooked() { return std::move(hooked_); }
  bool hooks() const { return !hooked_.empty(); }

  // The arguments of the operator whose results did not match the script.
  std::vector<c10::IValue> held() { return std::move(held_); }

  // ------------------------------------------------------------ called from Python with the lock held

  const std::shared_ptr<Script>& script() const { return script_; }
  size_t position() const { return position_; }
  size_t& taken() { return taken_; }
  int64_t base() const { return base_; }
  const std::vector<Note>& notes() const { return notes_; }
  const Statistics* table() const { return table_; }
  // Set the memory for statistics to which a device can write; nullptr for none.
  void rows(Statistics* rows) { rows_ = rows; }
  bool with_statistics() const { return with_statistics_; }
  std::vector<Varied>& varied() { return varied_; }
  std::vector<Drawn>& drawn() { return drawn_; }
  Room& room() { return room_; }

  // Call told(slot, number, used in this step, version) for each live storage; Python knows these from now on.
  template <class Told>
  void tell(Told told) {
    for (auto* addresses : {&older_, &made_})
      for (const void* address : *addresses) {
        auto* known = storages().find(address);
        if (known && !known->reference.expired()) {
          known->told = true;
          told(known->slot, known->number, known->cycle == cycle_, known->version);
        }
      }
    for (size_t slot = 0; slot < bound_.size(); slot++)
      if (script_->slots[slot] && versions_[slot] >= 0) told(uint32_t(slot), script_->slots[slot], bound_[slot] != nullptr, versions_[slot]);
    older_.clear();
    made_.clear();
  }

  // The slot of a tensor's storage in this step, or -1.
  int64_t slot_of(const at::Tensor& tensor) {
    auto* known = storages().find(Storages::address_of(tensor));
    return known && known->cycle == cycle_ ? int64_t(known->slot) : -1;
  }

 private:
  static constexpr int32_t kScalar = INT32_MIN, kAlone = -1;

  Item* next() {
    if (mode.load(std::memory_order_relaxed) != Mode::fast || interrupted.load(std::memory_order_relaxed)) return nullptr;
    return position_ < script_->items.size() ? &script_->items[position_] : nullptr;
  }

  // Stop following; storages that the step made stay known until they are freed.
  void leave() {
    mode = Mode::slow;
    storages().sweep(made_);
    older_.insert(older_.end(), made_.begin(), made_.end());
    made_.clear();
    if (older_.size() > most_older_) {
      storages().sweep(older_);
      most_older_ = 2 * older_.size() + 256;
    }
  }

  bool facts(c10::ArrayRef<const c10::IValue> values, std::vector<Fact>& to, std::vector<int32_t>& structure, Item* item) {
    return each_part(values, [&](int32_t kind) { structure.push_back(kind); return true; },
        [&](const at::Tensor& tensor) {
          if (!is_comparable(tensor)) return false;
          if (int index = device().index_of(tensor); index >= 0 && index != device().index) return false;
          const void* address = Storages::address_of(tensor);
          uint64_t number = storages().added(tensor, address).number;
          if (capturing_ && number > counted_) fresh_.push_back(address);
          Fact fact{number, 0, tensor.storage_offset(), {}, {},
                    tensor.scalar_type(), tensor.requires_grad(), device().index_of(tensor)};
          fact.sizes.assign(tensor.sizes().begin(), tensor.sizes().end());
          fact.strides.assign(tensor.strides().begin(), tensor.strides().end());
          to.push_back(std::move(fact));
          return true;
        },
        [&](uint32_t argument, const c10::IValue& value) { if (item) item->plain.push_back({argument, value}); return true; });
  }

  template <class Structure, class Other>
  bool matches(c10::ArrayRef<const c10::IValue> values, const std::vector<Fact>& facts, Structure structure, Other plain) {
    size_t at = 0;
    bool same = each_part(values, structure, [&](const at::Tensor& tensor) {
      if (at >= facts.size() || !fits(facts[at], tensor) || !binds(facts[at].slot, tensor)) return false;
      at++;
      tensors_.push_back(&tensor);
      return true;
    }, plain);
    return same && at == facts.size();
  }

  // Whether a tensor's storage is bound to a slot in this step. An unbound slot is bound to it if the storage is the
  // one of the script, for a storage older than the recorded step, or else is new.
  bool binds(uint32_t slot, const at::Tensor& tensor) {
    const void* address = Storages::address_of(tensor);
    if (bound_[slot]) return bound_[slot] == address;
    if (!address) return false;
    uint64_t number = script_->slots[slot];
    auto* known = storages().find(address);
    if (number ? !known || known->number != number : known != nullptr) return false;
    if (C10_UNLIKELY(checked_[slot] >= 0) && checked_[slot] != version_of(tensor)) return false;
    if (!known) {
      known = &storages().added(tensor, address);
      made_.push_back(address);
    }
    known->slot = slot;
    known->cycle = cycle_;
    bound_[slot] = address;
    return true;
  }

  bool summed(const at::Tensor& tensor, uint32_t place) {
    size_t needed = at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(), tensor.element_size(), tensor.storage_offset());
    if (tensor.numel() && tensor.unsafeGetTensorImpl()->unsafe_storage().nbytes() < needed) return false;  // the storage was shrunk
    Statistics& to = table_[place];
    if (device().index_of(tensor) >= 0) {
      enqueues_ = true;
      return rows_ && device().summarise(tensor, &to);
    }
    int32_t other = place < script_->same.size() ? script_->same[place] : kAlone;
    Array array(tensor);
    int64_t count = tensor.numel();
    if (!count) { sources_[place] = {}; to = {}; return true; }
    Blocks blocks(array);
    const char* in_a_row = blocks.in_a_row(gathered_);
    Source source = other == kAlone ? Source() : source_of(tensor, in_a_row);
    bool known = other >= 0 && source.version >= 0 && sources_[other].version == source.version && sources_[other].sum == source.sum;
    sources_[place] = source;
    if (!known) return summarise(array, blocks, in_a_row, count, to);
    if (uint32_t(other) != place) to = table_[other];
    preview(array, count, to);
    return true;
  }

  // Copy the elements of an output, if they are to be kept.
  bool kept(const at::Tensor& tensor, uint32_t place) {
    if (device().index_of(tensor) < 0) return kept(Array(tensor), place);
    int64_t bytes = bytes_of(place);
    if (!bytes) return true;
    enqueues_ = true;
    if (!device().copy(tensor, bytes, room_.memory + filled_)) return false;
    filled_ += aligned(bytes);
    return true;
  }

  int64_t bytes_of(uint32_t place) const { return room_.memory && place < script_->kept.size() ? script_->kept[place] : 0; }

  bool kept(const Array& array, uint32_t place) {
    int64_t bytes = bytes_of(place);
    if (!bytes) return true;
    if (!copy_elements(array, bytes, room_.memory + filled_)) return false;
    filled_ += aligned(bytes);
    return true;
  }

  // Statistics of a number that was read from a tensor; it is recorded as a tensor.
  bool number(c10::ArrayRef<const c10::IValue> returned, Statistics& to, uint32_t place) {
    if (returned.size() != 1) return false;
    const auto& value = returned[0];
    float number;
    int64_t integer;
    bool truth;
    auto told = [&](Array array) { return summarise(array, Blocks(array), nullptr, 1, to) && kept(array, place); };
    if (value.isDouble()) return told(Array{at::kFloat, &(number = float(value.toDouble()))});
    if (value.isInt()) return told(Array{at::kLong, &(integer = value.toInt())});
    if (value.isBool()) return told(Array{at::kBool, &(truth = value.toBool())});
    return false;
  }

  void note_version(uint32_t slot, const at::Tensor& tensor) {
    int64_t version = versions_[slot] = version_of(tensor);
    if (script_->slots[slot]) return;
    if (auto* known = storages().find(bound_[slot])) known->version = version;
  }

  // Record the state of the generator from which the operator is about to draw.
  void note_state(c10::ArrayRef<const c10::IValue> given) {
    at::Generator generator = at::detail::getDefaultCPUGenerator();
    for (const auto& value : given)
      if (value.isGenerator() && value.toGenerator().defined()) generator = value.toGenerator();
    at::DisableRecordFunctionGuard unobserved;
    at::Tensor state;
    {
      std::lock_guard<std::mutex> guard(generator.mutex());
      state = at::Tensor(generator.unsafeGetGeneratorImpl()->get_state());
    }
    drawn_.push_back({uint32_t(position_), std::string((const char*)state.const_data_ptr(), state.nbytes())});
    states_left_ -= int64_t(state.nbytes());
  }

  std::vector<Item> raw_;
  bool whole_ = true;
  uint64_t recording_ = 0;
  bool capturing_ = false;            // an operator has begun that may be the step's first
  std::vector<const void*> fresh_;    // storages first seen with that operator
  uint64_t counted_ = 0;              // the number of storages before that operator
  uint64_t before_ = 0;               // storages with a number up to this one are older than the step

  std::shared_ptr<Script> script_;
  size_t position_ = 0, taken_ = 0;
  int64_t base_ = 0, other_base_ = 0;
  const void* busy_ = nullptr;        // the thread of the running operator, or null
  bool enqueues_ = false;             // statistics or copies were enqueued for it
  Statistics* table_ = nullptr;       // where statistics are put: `statistics_`, or `rows_`
  Statistics* rows_ = nullptr;        // memory to which a device can write, or null
  uint64_t cycle_ = 0;
  bool with_statistics_ = false, varies_ = false;
  std::vector<const void*> bound_;    // by slot
  std::vector<const void*> made_, older_;
  size_t most_older_ = 256;
  std::vector<Note> notes_;
  std::vector<Statistics> statistics_;
  std::vector<Varied> varied_;
  std::vector<Drawn> drawn_;
  int64_t states_left_ = 0;
  std::vector<int64_t> versions_, checked_;  // by slot; -1 for none
  Room room_;
  std::vector<Source> sources_;       // by row of statistics
  std::vector<char> gathered_;        // buffer in which a tensor's elements become contiguous
  bool rested_ = false;
  bool saves_ = false;                // autograd makes copies within the running operator
  bool nests_ = true;                 // other operators are called within it
  bool only_ = false;                 // there were no other callbacks when the step began
  int64_t filled_ = 0;                // bytes of the room that are filled, including the running operator's
  std::vector<c10::IValue> held_;
  std::vector<std::pair<int64_t, at::Tensor>> hooked_;
  std::vector<const at::Tensor*> tensors_, results_;
};

inline FastPath& fast_path() { static auto* only = new FastPath; return *only; }

}  // namespace nodescope
