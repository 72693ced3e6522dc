// The paged key-value cache of a request: a slot holds the keys and values of one token in every
// layer.
//
// A row is a list of slots. Splitting a beam copies the list, not the keys and values; slots that
// no row references are garbage-collected and reused when free slots run out.

#pragma once

#include <cstdint>
#include <vector>

#include "array.h"

namespace jumok {

using Slot = uint32_t;
using SlotList = std::vector<Slot>;

template <class CacheType>
class PagedKVCache {
 public:
  // A slot holds `width` elements for each of `layers` layers.
  PagedKVCache(int layers, int width) : layers_(layers), width_(width) {}

  CacheType* at(Slot slot, int layer) const {
    return blocks_[slot / BLOCK].data() + (layer * BLOCK + slot % BLOCK) * width_;
  }

  // Returns a slot that none of `rows` references.
  Slot allocate(const std::vector<SlotList>& rows) {
    if (free_.empty()) garbage_collect(rows);
    const Slot slot = free_.back();
    free_.pop_back();
    return slot;
  }

 private:
  void garbage_collect(const std::vector<SlotList>& rows) {
    std::vector<bool> referenced(blocks_.size() * BLOCK);
    for (const SlotList& row : rows)
      for (const Slot slot : row) referenced[slot] = true;
    for (Slot slot = blocks_.size() * BLOCK; slot-- > 0;)
      if (!referenced[slot]) free_.push_back(slot);
    if (free_.size() * 2 > referenced.size()) return;  // amortizes the cost of a collection
    blocks_.emplace_back(layers_ * BLOCK * width_);
    for (Slot i = BLOCK; i-- > 0;) free_.push_back(referenced.size() + i);
  }

  static constexpr size_t BLOCK = 256;  // slots
  size_t layers_, width_;
  std::vector<Array<CacheType>> blocks_;
  std::vector<Slot> free_;
};

}  // namespace jumok
