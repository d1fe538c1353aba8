from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

from clew.native.breakpad_fields cimport Fields

cdef class Columns(Fields):
    cdef size_t line_count, named_count, symbol_count, inline_count, range_count, win_count, run_count, anchor_count
    cdef list line_columns, named_columns, symbol_columns, inline_columns
    cdef list range_columns, win_columns, run_columns, anchor_columns, w_sizes
    cdef uint64_t[::1] l_address, n_offset, s_address, s_size, s_offset, r_address, r_size
    cdef uint64_t[::1] w_address, w_offset, c_offset, c_end
    cdef uint32_t[::1] l_size, l_line, l_file, n_number, n_length, n_line, s_parameter, s_length, s_text, s_line, s_inline
    cdef uint32_t[::1] i_line, i_file, i_origin, i_range, i_text, w_type, w_length, w_text, c_text, a_record, a_text
    cdef uint16_t[::1] i_depth
    cdef uint8_t[::1] n_kind, s_kind, s_multiple, i_old, w_program, w_base
