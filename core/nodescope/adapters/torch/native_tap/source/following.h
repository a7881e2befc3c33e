// Following: the functions by which Python controls the fast path. All are called with the GIL.
#pragma once
#include <Python.h>

#include "observer.h"

namespace nodescope {

inline const at::Tensor* tensor_in(PyObject* object) {
  return THPVariable_Check(object) ? &((THPVariable*)object)->cdata : nullptr;
}

inline PyObject* numbers_of(c10::IntArrayRef numbers) {
  PyObject* tuple = PyTuple_New(numbers.size());
  for (size_t i = 0; tuple && i < numbers.size(); i++) PyTuple_SET_ITEM(tuple, i, PyLong_FromLongLong(numbers[i]));
  return tuple;
}

inline PyObject* facts_of(const std::vector<Fact>& facts) {
  return list_of(facts, [](const Fact& fact) {
    return Py_BuildValue("(K(LNNO)O)", (unsigned long long)fact.number, (long long)fact.offset, numbers_of(fact.sizes),
                         numbers_of(fact.strides), (PyObject*)torch::getTHPDtype(fact.dtype),
                         fact.differentiable ? Py_True : Py_False);
  });
}

// mark(place): set the mark of this thread's scope and phase.
inline PyObject* mark(PyObject*, PyObject* place) {
  here().place = PyLong_AsLongLong(place);
  if (PyErr_Occurred()) return nullptr;
  Py_RETURN_NONE;
}

// quiet(by): add to this thread's quiet level; while it is above 0, operators are not observed (but see `loud`).
inline PyObject* quiet(PyObject*, PyObject* by) {
  here().quiet += int(PyLong_AsLong(by));
  if (PyErr_Occurred()) return nullptr;
  Py_RETURN_NONE;
}

// loud(at) -> the level before: observe operators of this thread at this quiet level; -1 stands for the present level.
// If the level is not 0, the operators are kept apart from the step.
inline PyObject* loud(PyObject*, PyObject* at) {
  Thread& thread = here();
  int number = int(PyLong_AsLong(at)), before = thread.loud;
  if (PyErr_Occurred()) return nullptr;
  thread.loud = number < 0 ? thread.quiet : number;
  return PyLong_FromLong(before);
}

// record() -> the number of the latest storage: begin to record a step, of which a script may be made.
inline PyObject* record(PyObject*, PyObject*) {
  return PyLong_FromUnsignedLongLong(fast_path().record(&here()));
}

// recorded() -> [(is an operator, reported, can be compared, summarised, after, inputs, outputs), ...], where a
// tensor is (storage, (offset, sizes, strides, dtype), requires grad); None if no script can be made of the step.
inline PyObject* recorded(PyObject*, PyObject*) {
  if (fast_path().mode != Mode::recording || !fast_path().whole()) Py_RETURN_NONE;
  return list_of(fast_path().raw(), [](const Item& item) {
    bool summarised = true;
    for (auto* facts : {&item.inputs, &item.outputs})
      for (auto& fact : *facts) summarised &= is_summarised(fact.dtype);
    auto truth = [](bool value) { return value ? Py_True : Py_False; };
    return Py_BuildValue("(OOOOLNN)", truth(item.op), truth(item.reported), truth(item.sound), truth(summarised),
                         (long long)item.after, facts_of(item.inputs), facts_of(item.outputs));
  });
}

inline void drop_script(PyObject* capsule) {
  delete (std::shared_ptr<Script>*)PyCapsule_GetPointer(capsule, "script");
}

// make([(leaves, results, may draw random numbers, draws them, [(input, value), ...]), ...]) -> the script of the
// recorded items, and the storage number of each slot
inline PyObject* make(PyObject*, PyObject* told) {
  std::shared_ptr<Script> script;
  std::vector<uint64_t> numbers;
  {
    auto& raw = const_cast<std::vector<Item>&>(fast_path().raw());
    if (fast_path().mode != Mode::recording || !PyList_Check(told) || size_t(PyList_GET_SIZE(told)) != raw.size()) {
      PyErr_SetString(PyExc_ValueError, "as many items as were recorded");
      return nullptr;
    }
    for (size_t i = 0; i < raw.size(); i++) {
      PyObject *leaves, *results, *hooked;
      int seeded, draws;
      if (!PyArg_ParseTuple(PyList_GET_ITEM(told, i), "O!O!ppO!", &PyTuple_Type, &leaves, &PyTuple_Type, &results, &seeded, &draws,
                            &PyTuple_Type, &hooked)) return nullptr;
      raw[i].seeded = seeded;
      raw[i].draws = draws;
      for (Py_ssize_t j = 0; j < PyTuple_GET_SIZE(leaves); j++) {
        long leaf = PyLong_AsLong(PyTuple_GET_ITEM(leaves, j));
        if (leaf < 0 || size_t(leaf) >= raw[i].inputs.size()) { PyErr_SetString(PyExc_IndexError, "no such input"); return nullptr; }
        raw[i].leaves.push_back(uint32_t(leaf));
      }
      for (Py_ssize_t j = 0; j < PyTuple_GET_SIZE(results); j++) {
        PyObject* given = PyTuple_GET_ITEM(results, j);
        long result = given == Py_None ? INT32_MIN : PyLong_AsLong(given);
        bool known = given == Py_None || (result >= 0 ? size_t(result) < raw[i].outputs.size() : size_t(-1 - result) < raw[i].inputs.size());
        if (!known) { PyErr_SetString(PyExc_IndexError, "no such result"); return nullptr; }
        raw[i].results.push_back(int32_t(result));
      }
      for (Py_ssize_t j = 0; j < PyTuple_GET_SIZE(hooked); j++) {
        unsigned input;
        long long value;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(hooked, j), "IL", &input, &value)) return nullptr;
        if (input >= raw[i].inputs.size()) { PyErr_SetString(PyExc_IndexError, "no such input"); return nullptr; }
        raw[i].hooked.push_back({input, value});
      }
    }
    script = fast_path().make(numbers);
  }
  PyObject* slots = list_of(numbers, PyLong_FromUnsignedLongLong);
  auto* held = new std::shared_ptr<Script>(std::move(script));
  PyObject* capsule = PyCapsule_New(held, "script", drop_script);
  return Py_BuildValue("(NN)", capsule, slots);
}

// follow(script, with statistics, bytes of states, [(slot, version), ...])
inline PyObject* follow(PyObject*, PyObject* arguments) {
  PyObject *capsule, *slots;
  int with_statistics;
  long long states;
  if (!PyArg_ParseTuple(arguments, "OpLO!", &capsule, &with_statistics, &states, &PyList_Type, &slots)) return nullptr;
  auto* script = (std::shared_ptr<Script>*)PyCapsule_GetPointer(capsule, "script");
  if (!script) return nullptr;
  std::vector<std::pair<uint32_t, int64_t>> checked;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(slots); i++) {
    unsigned slot;
    long long version;
    if (!PyArg_ParseTuple(PyList_GET_ITEM(slots, i), "IL", &slot, &version)) return nullptr;
    checked.push_back({slot, version});
  }
  fast_path().follow(*script, &here(), with_statistics, now(), states, checked);
  Py_RETURN_NONE;
}

// keep(script, bytes of the copy of each output, as 64-bit integers)
inline PyObject* keep(PyObject*, PyObject* arguments) {
  PyObject* capsule;
  Py_buffer bytes;
  if (!PyArg_ParseTuple(arguments, "Oy*", &capsule, &bytes)) return nullptr;
  auto* script = (std::shared_ptr<Script>*)PyCapsule_GetPointer(capsule, "script");
  if (script) fast_path().keep(**script, std::vector<int64_t>((int64_t*)bytes.buf, (int64_t*)bytes.buf + bytes.len / 8));
  PyBuffer_Release(&bytes);
  if (!script) return nullptr;
  Py_RETURN_NONE;
}

// pairs(script, two value ids per item as 64-bit integers): the parameter and gradient of each arrival; 0 for other items
inline PyObject* pairs(PyObject*, PyObject* arguments) {
  PyObject* capsule;
  Py_buffer bytes;
  if (!PyArg_ParseTuple(arguments, "Oy*", &capsule, &bytes)) return nullptr;
  auto* script = (std::shared_ptr<Script>*)PyCapsule_GetPointer(capsule, "script");
  if (script) fast_path().pairs(**script, (const int64_t*)bytes.buf, bytes.len / 16);
  PyBuffer_Release(&bytes);
  if (!script) return nullptr;
  Py_RETURN_NONE;
}

// reuse(script, same): by output, the earlier output with the same elements, as 32-bit integers; see `same_elements`
inline PyObject* reuse(PyObject*, PyObject* arguments) {
  PyObject* capsule;
  Py_buffer same;
  if (!PyArg_ParseTuple(arguments, "Oy*", &capsule, &same)) return nullptr;
  auto* script = (std::shared_ptr<Script>*)PyCapsule_GetPointer(capsule, "script");
  auto numbers = [](const Py_buffer& bytes) { return std::vector<int32_t>((int32_t*)bytes.buf, (int32_t*)bytes.buf + bytes.len / 4); };
  if (script) fast_path().reuse(**script, numbers(same));
  PyBuffer_Release(&same);
  if (!script) return nullptr;
  Py_RETURN_NONE;
}

// hold(memory or None): set the memory for copies of elements. Called on the thread that follows a script, or
// while none is followed.
inline PyObject* hold(PyObject*, PyObject* memory) {
  static Py_buffer held{};
  Py_buffer buffer{}, before;
  if (memory != Py_None && PyObject_GetBuffer(memory, &buffer, PyBUF_WRITABLE) < 0) return nullptr;
  {
    std::lock_guard<std::mutex> guard(storages().lock);
    fast_path().room() = Room{(char*)buffer.buf, int64_t(buffer.len), 0, 0};
    fast_path().full = false;
    before = held;
    held = buffer;
  }
  PyBuffer_Release(&before);
  Py_RETURN_NONE;
}

// full() -> whether the memory for copies has too little room for the next operator
inline PyObject* full(PyObject*, PyObject*) { return PyBool_FromLong(fast_path().full); }

// position() -> the number of the script's items that were followed
inline PyObject* position(PyObject*, PyObject*) {
  std::lock_guard<std::mutex> guard(storages().lock);
  return PyLong_FromSize_t(fast_path().position());
}

// progress() -> the number of nodes that have run, -1 while one is running
inline PyObject* progress(PyObject*, PyObject*) {
  if (under_way.load(std::memory_order_relaxed) > 0) return PyLong_FromLong(-1);
  return PyLong_FromUnsignedLongLong(over_count.load(std::memory_order_relaxed));
}

// stop() -> (number of followed items, the first sequence number): stop following
inline PyObject* stop(PyObject*, PyObject*) {
  size_t position = fast_path().stop();
  return Py_BuildValue("(nL)", Py_ssize_t(position), (long long)fast_path().base());
}

// interrupt(): have following end at the next operator
inline PyObject* interrupt(PyObject*, PyObject*) {
  fast_path().interrupted = true;
  Py_RETURN_NONE;
}

// take() -> (first, last, times of executions, statistics or None, [(item, [(argument, value), ...]), ...], [(item, state), ...],
// offset of the copies, moments of the device) for the items followed since the last call, or None. With a device, the
// statistics are given as the first row and the number of rows.
inline PyObject* take(PyObject*, PyObject*) {
  FastPath& path = nodescope::fast_path();
  std::vector<Note> notes;
  std::vector<Statistics> statistics;
  std::vector<Varied> varied;
  std::vector<Drawn> drawn;
  std::vector<Moment> moments;
  std::shared_ptr<Script> script;
  bool on_device, with_statistics;
  size_t row = 0, rows = 0;
  size_t first, last;
  int64_t from;
  bool nothing;
  Py_BEGIN_ALLOW_THREADS  // any thread may call this, and the program's thread may hold the lock for long
  {
    std::lock_guard<std::mutex> guard(storages().lock);
    first = path.taken();
    last = path.position();
    // If another thread calls this while an operator runs, the operator may still be followed: its state stays.
    auto under_way = path.drawn().begin();
    if (path.mode != Mode::fast) under_way = path.drawn().end();
    else while (under_way != path.drawn().end() && under_way->position < last) ++under_way;
    script = path.script();
    with_statistics = path.with_statistics();
    nothing = !script || (first >= last && under_way == path.drawn().begin());
    if (!nothing) {
      path.taken() = last;
      auto& items = script->items;
      for (size_t at = first; at < last; at++) {
        if (!items[at].op || !items[at].reported) continue;
        Note note = path.notes()[at];
        notes.insert(notes.end(), items[at].leaves.size(), {note.start, note.start});
        notes.push_back(note);
      }
      on_device = script->device >= 0;
      if (with_statistics) {
        row = first < items.size() ? items[first].statistics : script->statistics;
        size_t to = last < items.size() ? items[last].statistics : script->statistics;
        rows = to - row;
        if (!on_device) statistics.assign(path.table() + row, path.table() + to);
      }
      std::swap(moments, device().moments);
      std::swap(varied, path.varied());
      drawn.assign(std::make_move_iterator(path.drawn().begin()), std::make_move_iterator(under_way));
      path.drawn().erase(path.drawn().begin(), under_way);
      from = path.room().taken;
      path.room().taken = path.room().at;
    }
  }
  Py_END_ALLOW_THREADS
  if (nothing) Py_RETURN_NONE;
  path.flushed_ns = now();
  auto bytes = [](const auto& rows) { return PyBytes_FromStringAndSize((const char*)rows.data(), rows.size() * sizeof(rows[0])); };
  auto& items = script->items;
  PyObject* others = list_of(varied, [&](const Varied& one) {
    auto& known = items[one.position].op->arguments;
    return Py_BuildValue("(nN)", Py_ssize_t(one.position), list_of(one.plain, [&](const Plain& plain) {
      Argument argument = plain.argument < known.size() ? known[plain.argument] : Argument{};
      return Py_BuildValue("(nN)", Py_ssize_t(plain.argument), object_of(plain.value, argument));
    }));
  });
  PyObject* states = list_of(drawn, [](const Drawn& one) {
    return Py_BuildValue("(ny#)", Py_ssize_t(one.position), one.state.data(), Py_ssize_t(one.state.size()));
  });
  PyObject* given = !with_statistics ? none() : on_device ? Py_BuildValue("(nn)", Py_ssize_t(row), Py_ssize_t(rows)) : bytes(statistics);
  return Py_BuildValue("(nnNNNNLN)", Py_ssize_t(first), Py_ssize_t(last), bytes(notes), given, others, states, (long long)from,
                       bytes(moments));
}

// device((addresses of the driver's functions), (kernels), index, most blocks, pretends): from now on, operators on
// this device can be followed.
inline PyObject* use_device(PyObject*, PyObject* arguments) {
  PyObject *functions, *kernels;
  int index, pretends;
  unsigned most;
  if (!PyArg_ParseTuple(arguments, "O!O!iIp", &PyTuple_Type, &functions, &PyTuple_Type, &kernels, &index, &most, &pretends)) return nullptr;
  if (PyTuple_GET_SIZE(functions) != 7 || PyTuple_GET_SIZE(kernels) != kCodes) {
    PyErr_SetString(PyExc_ValueError, "7 functions and 9 kernels");
    return nullptr;
  }
  auto at = [](PyObject* tuple, int i) { return PyLong_AsVoidPtr(PyTuple_GET_ITEM(tuple, i)); };
  std::lock_guard<std::mutex> guard(storages().lock);
  Device& all = device();
  void** entries = (void**)&all.driver;
  for (int i = 0; i < 7; i++) entries[i] = at(functions, i);
  for (int i = 0; i < kCodes; i++) all.kernels[i] = at(kernels, i);
  if (PyErr_Occurred()) return nullptr;
  all.index = index;
  all.most_blocks = most;
  all.pretends = pretends;
  all.known = true;
  Py_RETURN_NONE;
}

// no_device(): from now on, operators on a device are not followed.
inline PyObject* no_device(PyObject*, PyObject*) {
  std::lock_guard<std::mutex> guard(storages().lock);
  device().known = device().pretends = false;
  device().moments.clear();
  Py_RETURN_NONE;
}

// scratch(stream, address): set the scratch memory for statistics computed in a stream
inline PyObject* scratch(PyObject*, PyObject* arguments) {
  unsigned long long stream, address;
  if (!PyArg_ParseTuple(arguments, "KK", &stream, &address)) return nullptr;
  std::lock_guard<std::mutex> guard(storages().lock);
  device().set_scratch((void*)stream, address);
  Py_RETURN_NONE;
}

// rows(address or 0): set the memory for the statistics of the next step
inline PyObject* put_rows(PyObject*, PyObject* address) {
  auto* memory = PyLong_AsVoidPtr(address);
  if (PyErr_Occurred()) return nullptr;
  std::lock_guard<std::mutex> guard(storages().lock);
  fast_path().rows((Statistics*)memory);
  Py_RETURN_NONE;
}

// since(first event, events as 64-bit integers) -> nanoseconds from the first event to each of the others, as 64-bit
// integers, or None on an error; all events must have completed
inline PyObject* since(PyObject*, PyObject* arguments) {
  unsigned long long first;
  Py_buffer events;
  if (!PyArg_ParseTuple(arguments, "Ky*", &first, &events)) return nullptr;
  std::vector<int64_t> times(events.len / 8);
  bool failed = false;
  Py_BEGIN_ALLOW_THREADS
  for (size_t i = 0; i < times.size(); i++) {
    float ms = 0;
    failed |= device().driver.elapsed(&ms, (void*)first, (void*)((int64_t*)events.buf)[i]) != 0;
    times[i] = int64_t(double(ms) * 1e6);
  }
  Py_END_ALLOW_THREADS
  PyBuffer_Release(&events);
  if (failed) Py_RETURN_NONE;
  return PyBytes_FromStringAndSize((const char*)times.data(), times.size() * 8);
}

// give_back(events as 64-bit integers): return events that are no longer needed
inline PyObject* give_back(PyObject*, PyObject* object) {
  Py_buffer events;
  if (PyObject_GetBuffer(object, &events, PyBUF_SIMPLE) < 0) return nullptr;
  Py_BEGIN_ALLOW_THREADS  // called on threads of nodescope, which may wait for the program's thread here
  {
    std::lock_guard<std::mutex> guard(storages().lock);
    for (Py_ssize_t i = 0; i < events.len / 8; i++) device().give_back((void*)((int64_t*)events.buf)[i]);
  }
  Py_END_ALLOW_THREADS
  PyBuffer_Release(&events);
  Py_RETURN_NONE;
}

// tell() -> [(slot, number, whether used in this step, version), ...] of the live storages
inline PyObject* tell(PyObject*, PyObject*) {
  struct Told { uint32_t slot; uint64_t number; bool now; int64_t version; };
  std::vector<Told> all;
  {
    std::lock_guard<std::mutex> guard(storages().lock);
    fast_path().tell([&](uint32_t slot, uint64_t number, bool now, int64_t version) { all.push_back({slot, number, now, version}); });
  }
  return list_of(all, [](const Told& one) {
    return Py_BuildValue("(IKOL)", one.slot, (unsigned long long)one.number, one.now ? Py_True : Py_False, (long long)one.version);
  });
}

// slot(tensor) -> the slot of its storage in the script that is followed, or -1
inline PyObject* slot(PyObject*, PyObject* object) {
  auto* tensor = tensor_in(object);
  int64_t slot = -1;
  if (tensor && Storages::address_of(*tensor)) {
    std::lock_guard<std::mutex> guard(storages().lock);
    slot = fast_path().slot_of(*tensor);
  }
  return PyLong_FromLongLong(slot);
}

// knows(tensor) -> whether Python knows the number of its storage
inline PyObject* knows(PyObject*, PyObject* object) {
  auto* tensor = tensor_in(object);
  bool known = false;
  if (tensor && Storages::address_of(*tensor)) {
    std::lock_guard<std::mutex> guard(storages().lock);
    auto* storage = storages().find(Storages::address_of(*tensor));
    known = storage && storage->told;
  }
  return PyBool_FromLong(known);
}

// arrived(parameter, gradient) -> whether the arrival of this gradient is the script's next item; during recording,
// it is recorded instead
inline PyObject* arrived(PyObject*, PyObject* arguments) {
  PyObject *parameter, *gradient;
  if (!PyArg_ParseTuple(arguments, "OO", &parameter, &gradient)) return nullptr;
  auto *a = tensor_in(parameter), *b = tensor_in(gradient);
  if (!a || !b) Py_RETURN_FALSE;
  c10::IValue given[] = {*a, *b};
  if (!fast_path().is_ours(&here(), given)) Py_RETURN_FALSE;
  if (fast_path().mode == Mode::recording) fast_path().arrival(*a, *b, here().place, &here());
  return PyBool_FromLong(fast_path().arrived(*a, *b, here().place, &here()));
}

// accumulated(parameter, {value: gradient, ...}) -> whether the arrival of its gradient is the script's next item and
// its pair of values is already in the dictionary, so that nothing is left to do
inline PyObject* accumulated(PyObject*, PyObject* arguments) {
  PyObject *object, *known;
  if (!PyArg_ParseTuple(arguments, "OO!", &object, &PyDict_Type, &known)) return nullptr;
  auto* parameter = tensor_in(object);
  if (!parameter || fast_path().mode != Mode::fast) Py_RETURN_FALSE;
  auto [value, gradient] = fast_path().pair();
  if (!value) Py_RETURN_FALSE;
  PyObject* key = PyLong_FromLongLong(value);
  if (!key) return nullptr;
  PyObject* paired = PyDict_GetItemWithError(known, key);
  Py_DECREF(key);
  if (!paired) { if (PyErr_Occurred()) return nullptr; Py_RETURN_FALSE; }
  if (PyLong_AsLongLong(paired) != gradient) { PyErr_Clear(); Py_RETURN_FALSE; }
  const at::Tensor& arrived = parameter->grad();
  if (!arrived.defined()) Py_RETURN_FALSE;
  c10::IValue given[] = {*parameter, arrived};
  if (!fast_path().is_ours(&here(), given)) Py_RETURN_FALSE;
  return PyBool_FromLong(fast_path().arrived(*parameter, arrived, here().place, &here()));
}

#define NODESCOPE_FOLLOWING_METHODS \
    {"mark", mark, METH_O, "Set the mark of this thread's scope and phase."}, \
    {"quiet", quiet, METH_O, "Add to this thread's quiet level."}, \
    {"loud", loud, METH_O, "Observe operators of this thread at a quiet level."}, \
    {"record", record, METH_NOARGS, "Begin to record a step."}, \
    {"recorded", recorded, METH_NOARGS, "The recorded items."}, \
    {"make", make, METH_O, "Make a script of the recorded items."}, \
    {"follow", follow, METH_VARARGS, "Follow a script."}, \
    {"keep", keep, METH_VARARGS, "Set how many bytes of each output are copied."}, \
    {"pairs", pairs, METH_VARARGS, "Set the values of arrivals."}, \
    {"accumulated", accumulated, METH_VARARGS, "Whether the arrival of a gradient needs no further work."}, \
    {"reuse", reuse, METH_VARARGS, "Set which outputs have the same elements."}, \
    {"hold", hold, METH_O, "Set the memory for copies."}, \
    {"full", full, METH_NOARGS, "Whether the next operator has too little room for copies."}, \
    {"position", position, METH_NOARGS, "The number of followed items."}, \
    {"progress", progress, METH_NOARGS, "The number of nodes that have run."}, \
    {"stop", stop, METH_NOARGS, "Stop following."}, \
    {"interrupt", interrupt, METH_NOARGS, "Have following end at the next operator."}, \
    {"take", take, METH_NOARGS, "The records since the last call."}, \
    {"device", use_device, METH_VARARGS, "Allow operators on a device to be followed."}, \
    {"no_device", no_device, METH_NOARGS, "Follow no operators on a device."}, \
    {"scratch", scratch, METH_VARARGS, "Set the scratch memory of a stream."}, \
    {"rows", put_rows, METH_O, "Set the memory for statistics."}, \
    {"since", since, METH_VARARGS, "Times between events."}, \
    {"give_back", give_back, METH_O, "Return events that are no longer needed."}, \
    {"tell", tell, METH_NOARGS, "The live storages of the script."}, \
    {"slot", slot, METH_O, "The slot of a tensor's storage, or -1."}, \
    {"knows", knows, METH_O, "Whether Python knows the storage of a tensor."}, \
    {"arrived", arrived, METH_VARARGS, "Whether the arrival of a gradient matches the script."},

}  // namespace nodescope
