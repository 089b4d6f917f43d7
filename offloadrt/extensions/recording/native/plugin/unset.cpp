// Finds reads of a thread's own variable, or of a member of it, before anybody has written it: most often one that is `private` where it was
// meant to be firstprivate, or in a reduction, or one that a constructor leaves out.
//
// This looks at code before it is optimized, for an optimizer makes of such a read what it likes. A read is told where every write of the same
// bytes that can reach it comes behind it on all ways from the beginning of the function, as the one of `x += 1` does: when it first runs,
// nobody has written. A function that is called with the address writes and reads what its code says; what it reads on all ways is told at the
// call. Functions that are called nowhere else, as the bodies of parallel regions, are looked at as parts of their callers. Where an address
// goes anywhere else counts as a write of all. A copy of a whole structure hands on what is set, and what is not, for it copies what is between
// the members as well.
#include "offsets.h"
#include "plugin.h"
#include "llvm/Analysis/CFG.h"
#include "llvm/Analysis/PostDominators.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/DebugInfo.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include <map>
#include <optional>

using namespace llvm;

namespace offload {
namespace {

constexpr const char *Unset = "__offload_unset", *New = "__offload_new";

struct Place { // of the variable, or a part of it
  Value *address;
  Offset offset;
};
struct Use {
  Instruction *by;
  Bytes bytes;
};
struct Inside { // a function that nobody else calls gets the address
  CallBase *call;
  SmallVector<Place, 4> places;
};

// What is done with a variable in one function. A call reads and writes what its function does.
struct Uses {
  std::vector<Use> reads, writes;
  std::vector<Inside> calls;
  std::vector<Place> returned; // an address in it is what the function returns
  SmallPtrSet<Instruction *, 2> copies; // of all of it into a variable of the function, which stands for it from then on
  bool isKnown = true;
};

// A pass over a module, which keeps what it has found out of functions.
class UnsetReads {
public:
  // The first reads, before any write, of a variable of a function; and of what functions do with it that nobody else calls.
  std::vector<Use> of(AllocaInst &variable) {
    std::vector<Use> found;
    look({{&variable, Step{0, 0}}}, *variable.getFunction(), found, {}, 0);
    return found;
  }

  // Where a variable of the host's stack of which nobody has written a byte is mapped to a device: the store of its address for the runtime.
  Instruction *mappedUnset(AllocaInst &variable) {
    Uses uses = usesOf({{&variable, Step{0, 0}}}, *variable.getFunction(), 0);
    DominatorTree &tree = treesOf(*variable.getFunction()).first;
    if (!uses.isKnown)
      return nullptr;
    for (const Use &map : uses.writes) {
      auto *store = dyn_cast<StoreInst>(map.by);
      if (!store || !isForRuntime(*store) || !tree.isReachableFromEntry(store->getParent()))
        continue;
      bool isAgain = any_of(successors(store->getParent()), [&](BasicBlock *next) {
        return isPotentiallyReachable(&next->front(), store, nullptr, &tree); // it has been mapped before
      });
      if (!isAgain && none_of(uses.writes, [&](const Use &write) {
            return write.by->getParent() != store->getParent() || !isa<StoreInst>(write.by) || !isForRuntime(*cast<StoreInst>(write.by))
                       ? comesBefore(write, *store, tree)
                       : false;
          }))
        return store;
    }
    return nullptr;
  }

private:
  struct Summary { // what a function does with the variable that one of its parameters points to
    std::vector<Bytes> read, written; // read: certainly, and before any write
    std::vector<Offset> returned;
    bool isKnown = false;
  };
  std::map<Function *, std::pair<DominatorTree, PostDominatorTree>> trees;
  std::map<Argument *, Summary> summaries;
  std::map<AllocaInst *, std::vector<Use>> written; // what is written of variables that are copied as a whole

  std::pair<DominatorTree, PostDominatorTree> &treesOf(Function &function) {
    auto [found, isNew] = trees.try_emplace(&function);
    if (isNew)
      found->second.first.recalculate(function), found->second.second.recalculate(function);
    return found->second;
  }

  // set: what may be set before the function is called
  void look(SmallVector<Place, 4> places, Function &function, std::vector<Use> &found, const std::vector<Bytes> &set, unsigned depth) {
    Uses uses = usesOf(std::move(places), function, depth);
    if (!uses.isKnown || (uses.reads.empty() && uses.calls.empty()))
      return;
    DominatorTree &tree = treesOf(function).first;
    std::vector<Use> first;
    copy_if(uses.reads, std::back_inserter(first), [&](const Use &read) {
      return isFirst(read, uses, tree) && none_of(set, [&](const Bytes &bytes) { return bytes.meet(read.bytes); });
    });
    for (size_t i = 0; i < first.size(); i++) // what reads the same again says nothing new
      if (none_of(first, [&](const Use &other) {
            return other.bytes.meet(first[i].bytes) && (tree.dominates(other.by, first[i].by) || (other.by == first[i].by && &other < &first[i]));
          }))
        found.push_back(first[i]);
    for (Inside &inside : uses.calls) {
      if (inside.places.empty() || !tree.isReachableFromEntry(inside.call->getParent()))
        continue;
      std::vector<Bytes> then = set;
      for (const Use &write : uses.writes)
        if (comesBefore(write, *inside.call, tree))
          then.push_back(write.bytes);
      Value *address = inside.places[0].address;
      auto *argument = dyn_cast<Argument>(address);
      look(inside.places, argument ? *argument->getParent() : *cast<Instruction>(address)->getFunction(), found, then, depth + 1);
    }
  }

  // How far the addresses of a loop that begins at `address` and goes on by a fixed step are from that; nothing: it is no such loop.
  static Offset stepOf(const PHINode &loop, const Value *address) {
    for (unsigned way = 0; way < 2 && loop.getNumIncomingValues() == 2; way++) {
      auto *next = dyn_cast<GetElementPtrInst>(loop.getIncomingValue(1 - way));
      Offset further = next && next->getPointerOperand() == &loop ? distanceOf(*next) : Offset();
      if (further && !further->step && (loop.getIncomingValue(way) == address || next == address))
        return Step{0, further->at};
    }
    return {};
  }

  // Whether a write can come before an access when that first runs.
  static bool comesBefore(const Use &write, const Instruction &access, DominatorTree &tree) {
    return write.by != &access && !tree.dominates(&access, write.by) && isPotentiallyReachable(write.by, &access, nullptr, &tree);
  }

  static bool isFirst(const Use &read, const Uses &uses, DominatorTree &tree) {
    return tree.isReachableFromEntry(read.by->getParent()) &&
           none_of(uses.writes, [&](const Use &write) { return write.bytes.meet(read.bytes) && comesBefore(write, *read.by, tree); });
  }

  Uses usesOf(SmallVector<Place, 4> places, Function &function, unsigned depth) {
    const DataLayout &layout = function.getParent()->getDataLayout();
    Uses uses;
    SmallPtrSet<Value *, 8> seen;
    while (!places.empty()) {
      auto [address, offset] = places.pop_back_val();
      if (!seen.insert(address).second)
        continue;
      for (User *user : address->users()) {
        auto *instruction = dyn_cast<Instruction>(user);
        if (!instruction) {
          uses.isKnown = false;
          return uses;
        }
        if (auto *load = dyn_cast<LoadInst>(instruction)) {
          if (!load->use_empty() && !setsPart(*load) && !isLastprivate(*load) && !isHandedOn(*load) && !isPassed(*load))
            uses.reads.push_back({load, bytesAt(offset, layout.getTypeStoreSize(load->getType()))});
        } else if (auto *element = dyn_cast<GetElementPtrInst>(instruction)) {
          places.push_back({element, offset + distanceOf(*element)});
        } else if (auto *loop = dyn_cast<PHINode>(instruction); loop && stepOf(*loop, address)) {
          places.push_back({loop, offset + stepOf(*loop, address)});
        } else if (isa<ICmpInst>(instruction)) {
          continue;
        } else if (isa<AddrSpaceCastInst>(instruction))
          places.push_back({instruction, offset});
        else if (isa<ReturnInst>(instruction))
          uses.returned.push_back({address, offset});
        else if (auto *store = dyn_cast<StoreInst>(instruction)) {
          if (store->getValueOperand() != address)
            addStore(*store, bytesAt(offset, layout.getTypeStoreSize(store->getValueOperand()->getType())), uses, depth);
          else if (isReference(*store)) { // a parameter's place on the stack, without optimization, or a reference
            for (User *again : store->getPointerOperand()->users())
              if (auto *load = dyn_cast<LoadInst>(again))
                places.push_back({load, offset});
          } else {
            auto inside = depth < 8 && offset && !offset->at && !offset->step ? receivedInField(*store) : std::pair<CallBase *, SmallVector<Value *, 4>>();
            uses.writes.push_back({inside.first ? static_cast<Instruction *>(inside.first) : store, {}});
            if (inside.first) {
              uses.calls.push_back({inside.first, {}});
              for (Value *again : inside.second)
                uses.calls.back().places.push_back({again, Step{0, 0}});
            }
          }
        } else if (auto *memory = dyn_cast<MemIntrinsic>(instruction))
          addCopy(*memory, address, offset, uses, places, depth);
        else if (isa<LifetimeIntrinsic>(instruction))
          continue;
        else if (auto *call = dyn_cast<CallBase>(instruction))
          addCall(*call, address, offset, uses, places, depth);
        else
          uses.writes.push_back({instruction, {}});
      }
    }
    return uses;
  }

  // A copy that the compiler makes, or a fill. Only what is set of the one variable is set in the other one then. What a function copies that
  // one of its parameters points to, as a firstprivate object, is looked at as if it were that itself.
  void addCopy(MemIntrinsic &memory, Value *address, Offset offset, Uses &uses, SmallVectorImpl<Place> &places, unsigned depth) {
    auto *length = dyn_cast<ConstantInt>(memory.getLength());
    if (memory.getRawDest() != address) {
      auto *own = dyn_cast<AllocaInst>(memory.getRawDest());
      if (depth && own && length && own->getAllocationSize(memory.getDataLayout()) == TypeSize::getFixed(length->getZExtValue())) {
        uses.copies.insert(&memory);
        places.push_back({own, offset});
      }
      return;
    }
    if (uses.copies.contains(&memory))
      return;
    Bytes bytes = length ? bytesAt(offset, length->getZExtValue()) : Bytes();
    auto *copy = dyn_cast<MemTransferInst>(&memory);
    const DataLayout &layout = memory.getModule()->getDataLayout();
    APInt from(64, 0);
    auto *source = copy ? dyn_cast<AllocaInst>(copy->getRawSource()->stripAndAccumulateConstantOffsets(layout, from, true)) : nullptr;
    if (!source || !offset || offset->step || !length) {
      uses.writes.push_back({&memory, bytes});
      return;
    }
    addSet(memory, bytes, *source, offset->at - from.getSExtValue(), memory, uses, depth);
  }

  // Writes into `bytes` what is set of `source` where it is copied, `distance` bytes further on.
  void addSet(Instruction &by, Bytes bytes, AllocaInst &source, int64_t distance, Instruction &copied, Uses &uses, unsigned depth) {
    if (depth >= 8 || bytes.isAll() || bytes.step) {
      uses.writes.push_back({&by, bytes});
      return;
    }
    auto [known, isNew] = written.try_emplace(&source, std::vector<Use>{{&copied, {}}}); // what is being looked at may all be set
    if (isNew) {
      Uses there = usesOf({{&source, Step{0, 0}}}, *source.getFunction(), depth + 1);
      known->second = there.isKnown ? there.writes : std::vector<Use>{{&source, {}}};
    }
    DominatorTree &tree = treesOf(*copied.getFunction()).first;
    for (const Use &write : known->second)
      if (write.by == &copied || isPotentiallyReachable(write.by, &copied, nullptr, &tree)) {
        bool isWhole = write.bytes.isAll() || write.bytes.step;
        Bytes there = isWhole ? bytes : Bytes{std::max(write.bytes.begin + distance, bytes.begin), std::min(write.bytes.end + distance, bytes.end)};
        if (there.begin < there.end)
          uses.writes.push_back({&by, there});
      }
  }

  // A store. Of a small object that a function returns by value, only what the function has set is set then.
  void addStore(StoreInst &store, Bytes bytes, Uses &uses, unsigned depth) {
    Value *value = store.getValueOperand();
    auto *part = dyn_cast<ExtractValueInst>(value);
    auto *call = dyn_cast<CallBase>(part ? part->getAggregateOperand() : value);
    Function *called = call ? call->getCalledFunction() : nullptr;
    ReturnInst *end = nullptr;
    size_t ends = 0;
    if (called && !called->isDeclaration() && !called->isInterposable())
      for (BasicBlock &block : *called)
        if (auto *returned = dyn_cast<ReturnInst>(block.getTerminator()))
          end = returned, ends++;
    auto *load = ends == 1 && end->getReturnValue() ? dyn_cast<LoadInst>(end->getReturnValue()) : nullptr;
    const DataLayout &layout = store.getModule()->getDataLayout();
    APInt from(64, 0);
    auto *source = load ? dyn_cast<AllocaInst>(load->getPointerOperand()->stripAndAccumulateConstantOffsets(layout, from, true)) : nullptr;
    auto *type = dyn_cast<StructType>(call ? call->getType() : value->getType());
    if (!source || (part && (!type || part->getNumIndices() != 1)))
      return uses.writes.push_back({&store, bytes});
    int64_t within = part ? int64_t(layout.getStructLayout(type)->getElementOffset(part->getIndices()[0])) : 0;
    addSet(store, bytes, *source, bytes.begin - within - from.getSExtValue(), *load, uses, depth);
  }

  void addCall(CallBase &call, Value *address, Offset offset, Uses &uses, SmallVectorImpl<Place> &places, unsigned depth) {
    Argument *inside = depth < 8 ? received(call, address) : nullptr;
    if (inside)
      uses.calls.push_back({&call, {{inside, offset}}});
    Function *called = call.getCalledFunction();
    Summary summary;
    if (depth < 8 && called && !called->isVarArg() && !called->isDeclaration() && !called->isInterposable() &&
        count(call.args(), address) == 1)
      for (unsigned i = 0; i < call.arg_size() && i < called->arg_size(); i++)
        if (call.getArgOperand(i) == address)
          summary = summaryOf(*called->getArg(i), depth + 1);
    if (!summary.isKnown) {
      uses.writes.push_back({&call, {}});
      return;
    }
    for (Bytes bytes : summary.written)
      uses.writes.push_back({&call, bytes.moved(offset)});
    if (!inside)
      for (Bytes bytes : summary.read)
        uses.reads.push_back({&call, bytes.moved(offset)});
    for (Offset further : summary.returned)
      places.push_back({&call, offset + further});
  }

  // A copy of the function may stand elsewhere in the program: C++ lets it do nothing else there.
  Summary summaryOf(Argument &argument, unsigned depth) {
    auto [found, isNew] = summaries.try_emplace(&argument);
    if (!isNew) // unknown as long as it is looked at
      return found->second;
    Function &function = *argument.getParent();
    Uses uses = usesOf({{&argument, Step{0, 0}}}, function, depth);
    Summary summary;
    summary.isKnown = uses.isKnown;
    for (const Use &write : uses.writes)
      summary.written.push_back(write.bytes);
    for (const Place &place : uses.returned)
      summary.returned.push_back(place.offset);
    auto &[tree, ways] = treesOf(function);
    for (const Use &read : uses.reads)
      if (!isCopied(*read.by) && ways.dominates(read.by->getParent(), &function.getEntryBlock()) && isFirst(read, uses, tree))
        summary.read.push_back(read.bytes);
    return summaries[&argument] = summary;
  }
};

// The body of a region: of the host's code only what these read is told, for compilers warn of other variables.
bool isRegion(const Function &function) {
  return function.getName().contains("omp_outlined") || function.getName().contains("omp_par") || function.getName().contains("omp_offloading");
}

} // namespace

void tellUnset(Module &module, bool isDevice) {
  LLVMContext &context = module.getContext();
  std::vector<std::pair<Instruction *, std::string>> reads;
  std::vector<std::pair<Instruction *, AllocaInst *>> maps;
  UnsetReads unset;
  for (Function &function : module) {
    if (function.isDeclaration())
      continue;
    if (!isDevice)
      for (Instruction &instruction : instructions(function))
        if (auto *variable = dyn_cast<AllocaInst>(&instruction); variable && !sourceName(*variable).empty())
          if (Instruction *map = unset.mappedUnset(*variable))
            maps.push_back({map, variable});
    bool isWhole = isDevice || isRegion(function); // of other code, only what a region reads of an object
    for (Instruction &instruction : instructions(function))
      if (auto *variable = dyn_cast<AllocaInst>(&instruction); variable && (isWhole || variable->getAllocatedType()->isStructTy()))
        if (std::string name = sourceName(*variable); !name.empty())
          for (const Use &read : unset.of(*variable))
            if ((isWhole || isRegion(*read.by->getFunction())) && read.by->getDebugLoc() && read.by->getDebugLoc()->getLine())
              reads.push_back({read.by, name});
  }
  std::map<std::string, Constant *> texts;
  auto text = [&](StringRef string) {
    Constant *&letters = texts[string.str()];
    if (!letters) {
      Constant *data = ConstantDataArray::getString(context, string);
      letters = new GlobalVariable(module, data->getType(), true, GlobalValue::PrivateLinkage, data, "__offload_file");
    }
    return letters;
  };
  auto *pointer = PointerType::get(context, 0);
  auto *i32 = Type::getInt32Ty(context);
  auto *type = FunctionType::get(Type::getVoidTy(context), {pointer, pointer, i32}, false);
  auto ofRecorder = [&](const char *name) { // null without one; weak, for it is found when the program starts
    GlobalVariable *recorder = module.getNamedGlobal(name);
    if (!recorder) {
      recorder = new GlobalVariable(module, pointer, false, GlobalValue::WeakAnyLinkage, ConstantPointerNull::get(pointer), name);
      recorder->setVisibility(GlobalValue::HiddenVisibility);
    }
    return recorder;
  };
  auto tell = [&](const char *name, FunctionType *told, Instruction *before, ArrayRef<Value *> words) {
    IRBuilder<> builder(before);
    Value *function = builder.CreateLoad(pointer, ofRecorder(name));
    builder.SetInsertPoint(SplitBlockAndInsertIfThen(builder.CreateIsNotNull(function), before->getIterator(), false));
    builder.CreateCall(told, function, words);
  };
  for (auto &[read, name] : reads) {
    const DILocation *location = read->getDebugLoc();
    Value *words[] = {text(name), text(location->getFilename()), ConstantInt::get(i32, location->getLine())};
    if (isDevice)
      IRBuilder<>(read).CreateCall(module.getOrInsertFunction(Unset, type), words);
    else
      tell(Unset, type, read, words);
  }
  auto *i64 = Type::getInt64Ty(context);
  for (auto &[map, variable] : maps)
    if (std::optional<TypeSize> bytes = variable->getAllocationSize(module.getDataLayout()); bytes && !bytes->isScalable())
      tell(New, FunctionType::get(Type::getVoidTy(context), {i64, i64}, false), map,
           {IRBuilder<>(map).CreatePtrToInt(variable, i64), ConstantInt::get(i64, bytes->getFixedValue())}); // as a number: it is given to nobody
}

} // namespace offload
